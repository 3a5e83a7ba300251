//! Host duties shirked one at a time, to show that the kit notices.

/// A duty that the task host shirks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum HostFault {
    /// H1: of two records fetched together, the later is fed first.
    FeedsOutOfOrder,
    /// H2: positions past what never arrives are not reported.
    WithholdsAdvances,
    /// H3: an aborted step's state and positions are kept.
    KeepsStateAfterAbort,
    /// H3: an aborted step's sends are committed.
    KeepsSendsAfterAbort,
    /// H4: the partition is chosen after stamping, or what is appended bears another send's stamp.
    StampsBeforePartitioning,
    /// H5: a restart goes without the end offsets of its sinks.
    RestartsWithoutEnds,
    /// H5: a restart does not wait until its predecessor's transaction is decided everywhere.
    RestartsBeforeDecision,
    /// H6: a log start above the position is jumped over.
    JumpsOverLogStart,
    /// H7: all sends of a step are handed over at once.
    SendsWithoutRounds,
    /// A record at offset 3 is never fed.
    DropsOffsetThree,
    /// What was fetched counts as handed over before it is fed.
    CountsPrefetchedAsSettled,
    /// A step is committed with the positions of what is still held in the client, so a crash loses it.
    CommitsFetchPosition,
    /// H3: a step is committed with the positions of the step before.
    CommitsEarlierPositions,
    /// End offsets are read at the last stable offset.
    ReadsStableEnds,
    /// Watermarks are asked for before the mark is taken.
    AsksBeforeMark,
    /// Log starts and deletions are never checked.
    PausesChecks,
    /// A topic that was created again under its name is read on from the position of the one before.
    TrustsNames,
    /// Claims are dropped as soon as a log start is learned.
    TruncatesAtOnce,
    /// Claims are dropped one offset too far above a log start.
    TruncatesAboveBound,
    /// A tick is stamped before what its task is delivered first in the step.
    StampsTicksEarly,
    /// H3: a tick is appended outside its step's transaction, and stays when the step is aborted.
    TicksOutsideTheStep,
    /// H3: a step is committed without the tick state.
    LosesTickState,
}

impl HostFault {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::FeedsOutOfOrder,
        Self::WithholdsAdvances,
        Self::KeepsStateAfterAbort,
        Self::KeepsSendsAfterAbort,
        Self::StampsBeforePartitioning,
        Self::RestartsWithoutEnds,
        Self::RestartsBeforeDecision,
        Self::JumpsOverLogStart,
        Self::SendsWithoutRounds,
        Self::DropsOffsetThree,
        Self::CountsPrefetchedAsSettled,
        Self::CommitsFetchPosition,
        Self::CommitsEarlierPositions,
        Self::ReadsStableEnds,
        Self::AsksBeforeMark,
        Self::PausesChecks,
        Self::TrustsNames,
        Self::TruncatesAtOnce,
        Self::TruncatesAboveBound,
        Self::StampsTicksEarly,
        Self::TicksOutsideTheStep,
        Self::LosesTickState,
    ];

    /// Its name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FeedsOutOfOrder => "h1-feeds-out-of-order",
            Self::WithholdsAdvances => "h2-withholds-advances",
            Self::KeepsStateAfterAbort => "h3-keeps-state-after-abort",
            Self::KeepsSendsAfterAbort => "h3-keeps-sends-after-abort",
            Self::StampsBeforePartitioning => "h4-stamps-before-partitioning",
            Self::RestartsWithoutEnds => "h5-restarts-without-ends",
            Self::RestartsBeforeDecision => "h5-restarts-before-decision",
            Self::JumpsOverLogStart => "h6-jumps-over-log-start",
            Self::SendsWithoutRounds => "h7-sends-without-rounds",
            Self::DropsOffsetThree => "drops-offset-three",
            Self::CountsPrefetchedAsSettled => "counts-prefetched-as-settled",
            Self::CommitsFetchPosition => "commits-fetch-position",
            Self::CommitsEarlierPositions => "h3-commits-earlier-positions",
            Self::ReadsStableEnds => "reads-stable-ends",
            Self::AsksBeforeMark => "asks-before-mark",
            Self::PausesChecks => "pauses-checks",
            Self::TrustsNames => "trusts-names",
            Self::TruncatesAtOnce => "truncates-at-once",
            Self::TruncatesAboveBound => "truncates-above-bound",
            Self::StampsTicksEarly => "stamps-ticks-early",
            Self::TicksOutsideTheStep => "h3-ticks-outside-the-step",
            Self::LosesTickState => "h3-loses-tick-state",
        }
    }

    /// What it does instead, in one line.
    pub fn about(self) -> &'static str {
        match self {
            Self::FeedsOutOfOrder => "of two records fetched together, the later is fed first",
            Self::WithholdsAdvances => "positions past what never arrives are not reported",
            Self::KeepsStateAfterAbort => "an aborted step's state and positions are kept",
            Self::KeepsSendsAfterAbort => "an aborted step's sends are committed",
            Self::StampsBeforePartitioning => {
                "the partition is chosen after stamping, or what is appended bears another send's stamp"
            }
            Self::RestartsWithoutEnds => "a restart goes without the end offsets of its sinks",
            Self::RestartsBeforeDecision => {
                "a restart does not wait until its predecessor's transaction is decided everywhere"
            }
            Self::JumpsOverLogStart => "a log start above the position is jumped over",
            Self::SendsWithoutRounds => "all sends of a step are handed over at once",
            Self::DropsOffsetThree => "a record at offset 3 is never fed",
            Self::CountsPrefetchedAsSettled => {
                "what was fetched counts as handed over before it is fed"
            }
            Self::CommitsFetchPosition => {
                "a step is committed with the positions of what is still held in the client"
            }
            Self::ReadsStableEnds => "end offsets are read at the last stable offset",
            Self::AsksBeforeMark => "watermarks are asked for before the mark is taken",
            Self::PausesChecks => "log starts and deletions are never checked",
            Self::TrustsNames => {
                "a topic that was created again is read on from the position of the one before"
            }
            Self::CommitsEarlierPositions => {
                "a step is committed with the positions of the step before"
            }
            Self::TruncatesAtOnce => "claims are dropped as soon as a log start is learned",
            Self::TruncatesAboveBound => "claims are dropped one offset too far above a log start",
            Self::StampsTicksEarly => {
                "a tick is stamped before what its task is delivered first in the step"
            }
            Self::TicksOutsideTheStep => {
                "a tick is appended outside its step's transaction, and stays when the step is aborted"
            }
            Self::LosesTickState => "a step is committed without the tick state",
        }
    }

    /// The fault of that name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|fault| fault.as_str() == name)
    }
}
