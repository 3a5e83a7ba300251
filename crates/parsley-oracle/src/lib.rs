//! Placeholder module text.

#![forbid(unsafe_code)]
