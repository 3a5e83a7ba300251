//! What the oracle is held to: each rule by itself, and random histories against a plain reading of the definitions.

mod against_naive;
mod completeness;
mod explanations;
mod independence;
mod naive;
mod order;
mod places;
mod rollback;
mod script;
mod send_order;
mod telling;
mod world;
