//! The live figures that need no trained model, as a page loads them.

use wasm_bindgen::prelude::wasm_bindgen;

/// Draws a figure: [`widgets::page::draw`].
#[wasm_bindgen]
pub fn draw(figure: &str, values: &str) -> String {
    widgets::page::draw(&widgets::NUMBERS, figure, values)
}
