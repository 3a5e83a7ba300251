//! What each fuzz target does with the bytes that it is given (`docs/verification.md`, Fuzzing).
//!
//! The fuzzer runs these functions, and so does an ordinary test, on every file of the corpus. A function returns when all that it asserts
//! holds, and panics otherwise. Decoders that their crates keep to themselves are asserted there, in a module of the feature `fuzzing`.

#![forbid(unsafe_code)]

mod clock;
mod node;
mod parts;
mod stage;
mod state;

pub use clock::{clock, clock_join};
pub use node::{headers, state};
#[cfg(feature = "kafka")]
pub use parsley_cli::fuzzing::dumped_record;
pub use parsley_cli::fuzzing::{
    argument, clock_line, demo_command, judged_lines, lines, node_script,
};
pub use parsley_embedded::fuzzing::{log_chunk, log_description, log_format};
#[cfg(feature = "kafka")]
pub use parsley_kafka::fuzzing::{kafka_checkpoint, kafka_config, kafka_description};
pub use stage::{account_record, codec, token};
pub use state::{held_record, state_key, state_value};

/// A target: its name, which is that of its function, its binary and its folders, and what it does.
pub type Target = (&'static str, fn(&[u8]));

macro_rules! targets {
    ($($(#[$when:meta])? $name:ident),* $(,)?) => {
        &[$($(#[$when])? (stringify!($name), $name as fn(&[u8]))),*]
    };
}

/// Every target, in the order of docs/verification.md. A binary names its function alone, so that no other is linked to it: the fuzzer
/// looks at all that is there after each input.
pub const TARGETS: &[Target] = targets![
    clock,
    clock_join,
    headers,
    held_record,
    state_key,
    state_value,
    state,
    token,
    account_record,
    codec,
    log_chunk,
    log_description,
    log_format,
    #[cfg(feature = "kafka")]
    kafka_config,
    #[cfg(feature = "kafka")]
    kafka_description,
    #[cfg(feature = "kafka")]
    kafka_checkpoint,
    node_script,
    #[cfg(feature = "kafka")]
    dumped_record,
    judged_lines,
    clock_line,
    demo_command,
    argument,
    lines,
];
