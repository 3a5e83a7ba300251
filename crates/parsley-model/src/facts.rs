//! What a host tells a node beside records and positions.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::{Channel, Sender, Topic};

/// What one initialisation is told.
#[derive(Clone, Debug, Default)]
pub struct OpenLine {
    /// The name that the sender identity is made from.
    pub name: String,
    /// The declared inputs.
    pub inputs: BTreeSet<Channel>,
    /// Declared sinks and their partition counts.
    pub sinks: BTreeMap<Topic, i32>,
    /// Start positions.
    pub start: BTreeMap<Channel, i64>,
    /// End offsets: the high watermarks.
    pub ends: BTreeMap<Channel, i64>,
    /// Log starts.
    pub log_starts: BTreeMap<Channel, i64>,
    /// Topics that are definitively gone.
    pub deleted: BTreeSet<Topic>,
    /// Sinks that the host could not resolve.
    pub unresolved: BTreeSet<Topic>,
    /// The group had committed positions (what G11 asks).
    pub group_has_positions: bool,
}

/// What an initialisation answers: where joined channels with a seed are to be read from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// The position that each of them resumes at.
    pub resume: BTreeMap<Channel, i64>,
    /// The channels that joined, each with its seed if it has one.
    pub joined: BTreeMap<Channel, Option<i64>>,
}

/// What one check and sweep learned.
#[derive(Clone, Debug, Default)]
pub struct Truncation {
    /// Log starts, for the check.
    pub log_starts: BTreeMap<Channel, i64>,
    /// Topics found gone, for the check.
    pub gone: BTreeSet<Topic>,
    /// Offset claims below these positions go.
    pub drop_below: BTreeMap<Channel, i64>,
    /// All claims on these topics go.
    pub drop_gone: BTreeSet<Topic>,
}

/// A point in an execution that watermark evidence can speak for.
#[derive(Clone, Debug)]
pub struct Mark {
    /// Records received so far.
    pub arrivals: u64,
    /// Highest sequence per channel and sender in custody or on a held record.
    pub known: BTreeMap<(Channel, Sender), i64>,
    /// Last own sequence per channel.
    pub own: BTreeMap<Channel, i64>,
}
