//! A deterministic simulator of causal delivery, and the kit that other hosts are verified with.

#![forbid(unsafe_code)]

pub mod broker;
pub mod diagram;
pub mod shiviz;
pub mod trace;
