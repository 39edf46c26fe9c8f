//! The live figures of chapters 1 to 6, as a page loads them.

use wasm_bindgen::prelude::wasm_bindgen;

/// Draws a figure: [`widgets::page::draw`].
#[wasm_bindgen]
pub fn draw(figure: &str, values: &str) -> String {
    widgets::page::draw(&widgets::NUMBERS, figure, values)
}
