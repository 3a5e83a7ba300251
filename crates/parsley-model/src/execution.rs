//! What a node knows: the state it commits, and what lives in memory while it runs.

use std::collections::{BTreeMap, BTreeSet};

use crate::broken::Broken;
use crate::clock::Clock;
use crate::id::{Channel, Sender, Topic};
use crate::record::Held;

/// What the node's committed bytes say, parsed.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Recorded inputs and sinks; `None` before the first initialisation.
    pub scope: Option<(BTreeSet<Channel>, BTreeSet<Topic>)>,
    /// Stored frontiers. While an execution runs they are derived, see [`Execution::frontier`].
    pub frontiers: BTreeMap<Channel, i64>,
    /// The advertised term, by the channel it came through.
    pub advertised: BTreeMap<Channel, Clock>,
    /// The carried term.
    pub carried: Clock,
    /// Received and not delivered, by position.
    pub held: BTreeMap<Channel, Vec<Held>>,
    /// Head and tail index of each stored queue.
    pub indices: BTreeMap<Channel, (i64, i64)>,
    /// The last send sequence given out on each channel.
    pub sent: BTreeMap<Channel, i64>,
    /// Delivered marks: sequence and offset.
    pub marks: BTreeMap<(Channel, Sender), (i64, i64)>,
}

/// One execution: the state and what lives in memory alone.
#[derive(Clone, Debug)]
pub struct Execution {
    /// The own sender identity.
    pub me: Sender,
    /// The received channels.
    pub inputs: BTreeSet<Channel>,
    /// Declared sinks and their partition counts.
    pub sinks: BTreeMap<Topic, i32>,
    /// What is committed, or will be by the end of the step.
    pub state: State,
    /// `fed_up_to`, absent while undefined. Topics that are gone are not in it.
    pub fed: BTreeMap<Channel, i64>,
    /// Where the host began to read, for channels that have fed nothing yet.
    pub resume: BTreeMap<Channel, i64>,
    /// Topics found gone.
    pub gone: BTreeSet<Topic>,
    /// Topics whose claims a sweep has dropped: as gone as those, as far as stamps go.
    pub swept: BTreeSet<Topic>,
    /// The last offset fed by this execution.
    pub last_fed: BTreeMap<Channel, i64>,
    /// Highest position reported by an advance.
    pub advanced: BTreeMap<Channel, i64>,
    /// How many records this execution has received.
    pub arrivals: u64,
    /// Every watermark of every mark, per channel: (records received at the mark, high watermark).
    pub evidence: BTreeMap<Channel, Vec<(u64, i64)>>,
    /// The delivered term of the stamp.
    pub delivered: BTreeMap<Channel, i64>,
    /// The own term: offsets.
    pub own_offsets: BTreeMap<Channel, i64>,
    /// The own sequence that each own offset vouches for.
    pub own_vouched: BTreeMap<Channel, i64>,
    /// The own term: sequence claims.
    pub own_claims: BTreeMap<Channel, i64>,
    /// Channels with a send since the last fence.
    pub unfenced: BTreeSet<Channel>,
    /// Channels with a send since the last commit.
    pub sent_in_step: BTreeSet<Channel>,
    /// Where the scan stands: the channel of the last delivery of this pass.
    pub cursor: Option<Channel>,
    /// The rule that this execution breaks.
    pub broken: Option<Broken>,
}

impl Execution {
    /// Whether this is the rule that the execution breaks. Every rule asks where it is kept.
    pub(crate) fn breaks(&self, rule: Broken) -> bool {
        self.broken == Some(rule)
    }
}
