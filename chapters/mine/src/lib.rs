//! The reader's own attention, a module for each chapter: complete the functions that say `todo!()`.
//!
//! `cargo run -p mine` shows how far it has come, and `cargo test -p mine` judges it. With
//! `--features solutions` the same is judged of the solutions that are printed in the book.

// A stub uses neither its arguments nor all that its solution imports.
#![cfg_attr(not(feature = "solutions"), allow(unused))]

#[cfg_attr(feature = "solutions", path = "../solutions/ch01.rs")]
pub mod ch01;
#[cfg_attr(feature = "solutions", path = "../solutions/ch02.rs")]
pub mod ch02;
#[cfg_attr(feature = "solutions", path = "../solutions/ch03.rs")]
pub mod ch03;
#[cfg_attr(feature = "solutions", path = "../solutions/ch04.rs")]
pub mod ch04;
#[cfg_attr(feature = "solutions", path = "../solutions/ch05.rs")]
pub mod ch05;
#[cfg_attr(feature = "solutions", path = "../solutions/ch06.rs")]
pub mod ch06;
#[cfg_attr(feature = "solutions", path = "../solutions/ch07.rs")]
pub mod ch07;
#[cfg_attr(feature = "solutions", path = "../solutions/ch08.rs")]
pub mod ch08;
#[cfg_attr(feature = "solutions", path = "../solutions/ch09.rs")]
pub mod ch09;
#[cfg_attr(feature = "solutions", path = "../solutions/ch10.rs")]
pub mod ch10;

pub mod judge;
pub mod translator;
