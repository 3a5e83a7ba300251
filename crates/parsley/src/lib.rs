//! Causal delivery order for stream processors.
