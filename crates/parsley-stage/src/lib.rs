//! Typed topologies over the causal delivery protocol, and the task that hosts them.
