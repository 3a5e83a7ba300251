//! Random scripts for a node and the model of it.

pub mod alone;
pub mod chance;
pub mod coverage;
pub mod declare;
pub mod edits;
pub mod generate;
pub mod lockstep;
pub mod ops;
pub mod shrink;
pub mod subject;
pub mod violate;
pub mod world;
