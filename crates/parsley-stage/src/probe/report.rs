//! What a probe found.

use std::fmt;

/// What an application owes. Each clause has a code that stays, says where it is written, and what to do about a breach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Clause {
    /// Samples are written with the codecs that the application declares.
    CodecsAgree,
    /// A value is written, and what was written is read.
    CodecTakesAll,
    /// Equal values give equal bytes: written twice, and written again once it was read.
    CodecIsAFunction,
    /// Logic takes whatever its topics may bring: no error, no panic.
    LogicTakesAll,
    /// The same delivery on the same state gives the same sends and the same state.
    LogicIsAFunction,
    /// Logic emits to declared sinks alone, with their codecs (guard G5).
    SinkDeclared,
    /// Logic emits no header of the protocol (guard G14).
    HeaderFree,
    /// What logic emits has bytes.
    OutputWrites,
    /// What logic emits is read by the codecs of its sink.
    OutputReads,
    /// Headers of the protocol are ones that a task can read (guards G1 and G2).
    StampReads,
    /// A state is written, read, and written as the same bytes.
    StateComesBack,
}

impl Clause {
    /// All clauses.
    pub const ALL: [Self; 11] = [
        Self::CodecsAgree,
        Self::CodecTakesAll,
        Self::CodecIsAFunction,
        Self::LogicTakesAll,
        Self::LogicIsAFunction,
        Self::SinkDeclared,
        Self::HeaderFree,
        Self::OutputWrites,
        Self::OutputReads,
        Self::StampReads,
        Self::StateComesBack,
    ];

    /// The clause's code. It stays the same in later versions.
    pub fn code(self) -> &'static str {
        match self {
            Self::CodecsAgree => "probe-codecs-agree",
            Self::CodecTakesAll => "probe-codec-total",
            Self::CodecIsAFunction => "probe-codec-function",
            Self::LogicTakesAll => "probe-logic-total",
            Self::LogicIsAFunction => "probe-logic-function",
            Self::SinkDeclared => "probe-sink-declared",
            Self::HeaderFree => "probe-header-free",
            Self::OutputWrites => "probe-output-writes",
            Self::OutputReads => "probe-output-reads",
            Self::StampReads => "probe-stamp-reads",
            Self::StateComesBack => "probe-state-returns",
        }
    }

    /// Where the clause is written.
    pub fn section(self) -> &'static str {
        match self {
            Self::CodecsAgree => "docs/decisions.md, T3",
            Self::CodecTakesAll | Self::CodecIsAFunction => "the documentation of module `codec`",
            Self::LogicTakesAll | Self::OutputWrites => {
                "docs/protocol.md, Guards: failures of the application"
            }
            Self::LogicIsAFunction => "docs/architecture.md, Determinism",
            Self::SinkDeclared => "docs/protocol.md, Guards: G5",
            Self::HeaderFree => "docs/protocol.md, Guards: G14",
            Self::OutputReads => "docs/decisions.md, T3",
            Self::StampReads => "docs/protocol.md, Wire format, and Guards: G1 and G2",
            Self::StateComesBack => "docs/protocol.md, State, and docs/decisions.md, T5",
        }
    }

    /// What to do about a breach.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::CodecsAgree => {
                "take samples of the topic value that the stages were declared with"
            }
            Self::CodecTakesAll => {
                "have encode and decode agree on every value; take codec::fallible for bytes that others write, codec::nullable for null"
            }
            Self::CodecIsAFunction => {
                "write equal values as equal bytes: a BTreeMap for a HashMap, no times, no addresses"
            }
            Self::LogicTakesAll => {
                "answer every record: a step that fails is tried again with the same record, for good"
            }
            Self::LogicIsAFunction => {
                "take times from the message, keep what is remembered in the state, and iterate over ordered maps"
            }
            Self::SinkDeclared => "declare the sink on the stage, as the same topic value",
            Self::HeaderFree => {
                "give the header another name: `vc` and what begins with `vc-` is the protocol's"
            }
            Self::OutputWrites => "emit only what the sink's codecs can write",
            Self::OutputReads => {
                "have the sink's decode take what its encode writes: consumers read with the same codecs"
            }
            Self::StampReads => {
                "find who writes these headers; a task stops at such a record, since it cannot tell its causes"
            }
            Self::StateComesBack => {
                "have the state's codec read what it writes, whole: a state lives in its bytes alone between two deliveries"
            }
        }
    }
}

impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// Where something was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) stage: Option<String>,
    pub(super) topic: Option<String>,
    pub(super) sample: Option<usize>,
}

/// A breach.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The clause that is broken.
    pub clause: Clause,
    /// The stage, where it is one's; `None` for a codec of samples.
    pub stage: Option<String>,
    /// The topic: the sample's, or the sink's where an emission is at fault.
    pub topic: Option<String>,
    /// Which of its topic's samples was delivered, from 0; `None` for a tick.
    pub sample: Option<usize>,
    /// What was found.
    pub found: String,
    /// How often the clause was found broken at this stage and topic. The other fields tell of the first.
    pub times: usize,
}

/// `probe-logic-total at stage split, topic orders, sample 1: on the default state: attempt to divide by zero …`.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at", self.clause)?;
        if let Some(stage) = &self.stage {
            write!(f, " stage {stage},")?;
        }
        if let Some(topic) = &self.topic {
            write!(f, " topic {topic},")?;
        }
        match self.sample {
            Some(sample) => write!(f, " sample {sample}")?,
            None => write!(f, " a tick")?,
        }
        write!(f, ": {}", self.found)?;
        if self.times > 1 {
            write!(f, " ({} times)", self.times)?;
        }
        write!(f, "; {} ({})", self.clause.remedy(), self.clause.section())
    }
}

/// What the probe did not reach. No breach.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Note {
    /// The topic.
    pub topic: String,
    /// What is missing.
    pub note: &'static str,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "topic {}: {}", self.topic, self.note)
    }
}

/// What a probe found, and what it did not reach. Prints as one line for each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeReport {
    findings: Vec<Finding>,
    notes: Vec<Note>,
}

impl ProbeReport {
    /// The breaches: one for each clause, stage and topic.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// What the samples did not reach.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Whether no clause was found broken.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    /// Expects that no clause was found broken. Notes are no breach.
    ///
    /// # Panics
    ///
    /// When one was, with all findings.
    #[track_caller]
    pub fn assert_clean(&self) {
        assert!(
            self.is_clean(),
            "the application breaks its contract:\n{self}"
        );
    }

    pub(super) fn find(&mut self, clause: Clause, place: Place, found: impl Into<String>) {
        let same = |finding: &&mut Finding| {
            finding.clause == clause && finding.stage == place.stage && finding.topic == place.topic
        };
        if let Some(finding) = self.findings.iter_mut().find(same) {
            finding.times += 1;
            return;
        }
        let Place {
            stage,
            topic,
            sample,
        } = place;
        self.findings.push(Finding {
            clause,
            stage,
            topic,
            sample,
            found: found.into(),
            times: 1,
        });
    }

    pub(super) fn note(&mut self, topic: &str, note: &'static str) {
        self.notes.push(Note {
            topic: topic.to_owned(),
            note,
        });
    }
}

impl fmt::Display for ProbeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            writeln!(f, "{finding}")?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        Ok(())
    }
}
