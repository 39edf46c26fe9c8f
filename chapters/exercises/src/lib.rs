//! The exercises of the book, a module for each chapter: complete the functions that say `todo!()`.
//!
//! `cargo test -p exercises --test ch01` judges chapter 1, and so on. With `--features solutions`
//! the same tests judge the solutions that are printed in the book.

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
