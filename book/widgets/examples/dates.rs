//! The translator of dates, as a page loads it: with the model it is as large as all other figures.

use wasm_bindgen::prelude::wasm_bindgen;

/// Draws a figure: [`widgets::page::draw`].
#[wasm_bindgen]
pub fn draw(figure: &str, values: &str) -> String {
    widgets::page::draw(&widgets::DATES, figure, values)
}

/// Keeps the trained weights: [`widgets::page::keep_weights`].
#[wasm_bindgen]
pub fn keep_weights(bytes: &[u8]) -> String {
    widgets::page::keep_weights(bytes)
}
