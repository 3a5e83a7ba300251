//! What a run can be found guilty of.

use std::fmt;

use crate::trace::At;

/// The rule that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// One of the oracle's.
    Oracle(parsley_oracle::Rule),
    /// Records are still held, or were not read, when nothing more can happen.
    Undrained,
    /// The world does not come to rest.
    Livelock,
    /// A task was refused though nothing was wrong.
    UnexpectedRefusal,
    /// A task went on where a guard had to stop it.
    MissingRefusal,
    /// A task consumes other channels than it declares, or begins one behind a record that nothing delivered to it covers (duties H5, H6).
    WrongStart,
    /// A send was appended elsewhere than its key says, or was never emitted (duty H4).
    Misplaced,
    /// A stamp claims an offset that is not appended (duty H4).
    ClaimsUnappended,
    /// A send was appended before one to another partition, which it claims by sequence, was acknowledged (duty H7).
    SendOrder,
    /// Send sequences on a channel have a gap or a repetition.
    SequenceGap,
    /// A stamp cannot be read.
    CorruptStamp,
    /// A commit publishes a position that does not belong to its state (duty H3).
    WrongPosition,
    /// A step has more deliveries than its stage allows.
    StepTooLong,
    /// The state of a stage is not what its deliveries make of it.
    WrongState,
    /// The host itself failed, or was asked for what makes no sense: a plan that is none.
    HostFailed,
    /// Something panicked.
    Panicked,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Oracle(rule) => rule.fmt(f),
            Self::Undrained => f.write_str("undrained"),
            Self::Livelock => f.write_str("livelock"),
            Self::UnexpectedRefusal => f.write_str("unexpected refusal"),
            Self::MissingRefusal => f.write_str("missing refusal"),
            Self::WrongStart => f.write_str("wrong start"),
            Self::Misplaced => f.write_str("misplaced send"),
            Self::ClaimsUnappended => f.write_str("claim of an unappended offset"),
            Self::WrongPosition => f.write_str("committed position"),
            Self::StepTooLong => f.write_str("step too long"),
            Self::SendOrder => f.write_str("send order"),
            Self::SequenceGap => f.write_str("send sequence"),
            Self::CorruptStamp => f.write_str("corrupt stamp"),
            Self::WrongState => f.write_str("wrong state"),
            Self::HostFailed => f.write_str("host failure"),
            Self::Panicked => f.write_str("panic"),
        }
    }
}

/// A rule that was broken, where, and by which records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// What was found.
    pub text: Box<str>,
    /// The scheduler's step.
    pub step: u64,
    /// The actor, by its number in the trace.
    pub actor: Option<usize>,
    /// The record delivered wrongly, or never.
    pub record: Option<At>,
    /// The record that it is at odds with.
    pub other: Option<At>,
    /// The real causal path between the two.
    pub path: Box<[At]>,
}
