//! The causal delivery protocol as a pure state machine.
