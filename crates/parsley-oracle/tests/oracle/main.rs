//! What the oracle is held to: each rule by itself, and random histories against a plain reading of the definitions.

mod against_naive;
mod explanations;
mod independence;
mod naive;
mod rollback;
mod rules;
mod script;
mod send_order;
