//! Reading a task's state back from its changelogs, a little at a time.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parsley_core::{Changes, Channel, Offset, Refusal, RefusalCode};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::{Offset as KafkaOffset, TopicPartitionList};

use crate::changelog::Changelog;
use crate::cluster::{self, BETWEEN_TRIES, Cluster, ClusterError, TRIES};
use crate::config::KafkaConfig;
use crate::event::{ConsumerError, Polled};
use crate::native::EventConsumer;
use crate::state::{Checkpoint, StateError, StoreKind, TaskState};
use crate::worker::{is_denial, is_of_group};

/// How much is read before it is written down, in bytes of keys and values.
const BATCH_BYTES: usize = 1 << 20;

/// How long stable positions are not asked for when they were not to be had.
const PUT_OFF: Duration = Duration::from_secs(1);

/// The two changelogs of a stage.
#[derive(Clone, Debug)]
pub(crate) struct Changelogs {
    pub(crate) names: [String; 2],
    pub(crate) topics: [Changelog; 2],
}

impl Changelogs {
    pub(crate) fn name(&self, kind: StoreKind) -> &str {
        match kind {
            StoreKind::Ordering => &self.names[0],
            StoreKind::Fold => &self.names[1],
        }
    }

    pub(crate) fn topic(&self, kind: StoreKind) -> Changelog {
        match kind {
            StoreKind::Ordering => self.topics[0],
            StoreKind::Fold => self.topics[1],
        }
    }

    /// A checkpoint at the beginning of both.
    fn beginning(&self, now_ms: i64) -> Checkpoint {
        Checkpoint {
            topics: self.topics.map(|changelog| changelog.topic.id),
            next: [0, 0],
            at_ms: now_ms,
        }
    }
}

/// State could not be read back. It is tried again.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The directory cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// The cluster gave no answer.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The changelog could not be read.
    #[error("reading the changelog: {0}")]
    Consumer(ConsumerError),
    /// No client could be made.
    #[error("a client for the changelog: {0}")]
    Client(KafkaError),
}

/// A restore that is under way.
pub(crate) struct Restore {
    consumer: EventConsumer,
    changelogs: Changelogs,
    state: TaskState,
    checkpoint: Checkpoint,
    /// What is read.
    kinds: &'static [StoreKind],
    /// The high watermarks that have to be reached: what a predecessor had begun by then is waited for.
    targets: BTreeMap<StoreKind, Offset>,
    /// Nothing that a predecessor commits lies beyond them.
    are_final: bool,
    /// What stands at the targets or behind is not read: somebody may be writing it.
    is_bounded: bool,
    /// Until when nobody asks whether they can be.
    put_off_until: Option<Instant>,
    /// What of the changelogs is not there any more, though it is needed.
    cut: Option<String>,
    pending: [Changes; 2],
    pending_bytes: usize,
    records: u64,
}

impl Restore {
    /// Begins where the local state ends, if that can be relied on, and else at the beginning. Reads the changelogs of these kinds.
    #[expect(clippy::too_many_arguments, reason = "each is a thing of its own")]
    pub(crate) fn begin(
        config: &KafkaConfig,
        cluster: &Cluster,
        changelogs: &Changelogs,
        group: &str,
        partition: i32,
        dir: &Path,
        now_ms: i64,
        kinds: &'static [StoreKind],
    ) -> Result<Self, RestoreError> {
        let (mut starts, mut targets) = bounds(cluster, changelogs, partition)?;
        let (state, checkpoint) = TaskState::open(dir)?;
        // A broker that leads no more may say so of a changelog that has all: asked again, another answers.
        for _ in 1..TRIES {
            if shortened(checkpoint, changelogs, partition, &targets).is_none() {
                break;
            }
            std::thread::sleep(BETWEEN_TRIES);
            (starts, targets) = bounds(cluster, changelogs, partition)?;
        }
        let shortened = shortened(checkpoint, changelogs, partition, &targets);
        let usable = checkpoint.filter(|checkpoint| {
            let age = Duration::from_millis(now_ms.saturating_sub(checkpoint.at_ms).max(0) as u64);
            StoreKind::BOTH
                .into_iter()
                .enumerate()
                .all(|(index, kind)| {
                    let changelog = changelogs.topic(kind);
                    let next = checkpoint.next_of(kind);
                    // Beyond that age compaction may have removed the markers of keys that are still here.
                    checkpoint.topics[index] == changelog.topic.id
                        && next >= starts[&kind]
                        && next <= targets[&kind]
                        && age < changelog.delete_retention / 2
                })
        });
        // Compaction leaves a log's start where it is: records were deleted. Where all were, the changelogs say that there is no state.
        let is_empty = StoreKind::BOTH
            .iter()
            .all(|kind| starts[kind] == targets[kind]);
        let cut = StoreKind::BOTH
            .iter()
            .find(|kind| usable.is_none() && !is_empty && starts[kind] > 0)
            .map(|kind| {
                let (name, start) = (changelogs.name(*kind), starts[kind]);
                format!("partition {partition} of {name} begins at {start}: what was before it has been deleted")
            });
        let cut = shortened.clone().or(cut);
        let (state, checkpoint) = match usable {
            Some(checkpoint) => (state, checkpoint),
            // The next start is to find it out as well.
            None if shortened.is_some() => (state, changelogs.beginning(now_ms)),
            None => (state.cleared()?, changelogs.beginning(now_ms)),
        };
        let mut client = config.client();
        client
            // It joins no group and asks for no positions: librdkafka gives no queue to a consumer without the name of one.
            .set("group.id", format!("{group}-restore"))
            .set("isolation.level", "read_committed")
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("enable.partition.eof", "true")
            .set("auto.offset.reset", "earliest")
            .set("allow.auto.create.topics", "false");
        let consumer: BaseConsumer = client.create().map_err(RestoreError::Client)?;
        let mut assignment = TopicPartitionList::new();
        for kind in kinds {
            let next = checkpoint.next_of(*kind).max(starts[kind]);
            let from = KafkaOffset::Offset(next);
            assignment
                .add_partition_offset(changelogs.name(*kind), partition, from)
                .map_err(RestoreError::Client)?;
        }
        consumer.assign(&assignment).map_err(RestoreError::Client)?;
        Ok(Self {
            consumer: EventConsumer::new(consumer).map_err(RestoreError::Client)?,
            changelogs: changelogs.clone(),
            state,
            checkpoint,
            kinds,
            targets,
            are_final: false,
            is_bounded: false,
            put_off_until: None,
            cut,
            pending: Default::default(),
            pending_bytes: 0,
            records: 0,
        })
    }

    /// Refuses where something of the changelogs is not there any more, so that the state cannot be had.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        let found = self.cut.as_deref()?;
        Some(Refusal::of_node(RefusalCode::StateLost, found))
    }

    /// Reads on for a while. Returns whether everything is read.
    pub(crate) fn advance(&mut self, budget: Duration) -> Result<bool, RestoreError> {
        let until = Instant::now() + budget;
        while !self.is_done() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            match self.consumer.poll(left) {
                None => return Ok(false),
                Some(Polled::Record(record)) => {
                    let kind = self.kind_of(&record.partition.topic);
                    if self.is_bounded && record.offset >= self.targets[&kind] {
                        // The end of a transaction before it is no record.
                        self.checkpoint.advance(kind, self.targets[&kind]);
                        continue;
                    }
                    let key = record.key.unwrap_or_default();
                    self.take(kind, key, record.value, record.offset + 1)?;
                }
                Some(Polled::Eof { partition, offset }) => {
                    let kind = self.kind_of(&partition.topic);
                    self.checkpoint.advance(kind, offset);
                }
                // Its group it never joins, and need not be allowed to (decision K45).
                Some(Polled::Error(error))
                    if error.fatal || (is_denial(error.code) && !is_of_group(error.code)) =>
                {
                    return Err(RestoreError::Consumer(error));
                }
                // librdkafka goes on by itself.
                Some(Polled::Error(error)) => tracing::debug!(%error, "reading the changelog"),
                Some(Polled::Assigned(_) | Polled::Revoked { .. }) => {}
            }
        }
        self.write_down()?;
        Ok(true)
    }

    /// Asks where the changelogs end now. To be called when the group's positions are stable: a predecessor whose positions were taken may have
    /// written to the changelogs after that, and committed both (decision K18).
    pub(crate) fn look_again(
        &mut self,
        cluster: &Cluster,
        partition: i32,
    ) -> Result<(), RestoreError> {
        for kind in StoreKind::BOTH {
            let (_, end) = cluster.bounds(self.changelogs.name(kind), partition)?;
            self.targets.insert(kind, end);
        }
        self.are_final = true;
        Ok(())
    }

    /// Has what is read end between two transactions, whoever goes on with them. To be called when everything is read, which may have ended within one that
    /// was committed meanwhile; `asker` is read-committed.
    pub(crate) fn bound(
        &mut self,
        asker: &BaseConsumer,
        partition: i32,
    ) -> Result<(), ClusterError> {
        for kind in self.kinds {
            let name = self.changelogs.name(*kind);
            let stable = cluster::watermarks(asker, name, partition);
            let (_, stable) = stable
                .map_err(|source| ClusterError::request(format!("the end of {name}"), source))?;
            self.targets.insert(*kind, stable);
        }
        self.is_bounded = true;
        Ok(())
    }

    /// Takes note that the positions are not stable yet.
    pub(crate) fn put_off(&mut self) {
        self.put_off_until = Some(Instant::now() + PUT_OFF);
    }

    pub(crate) fn is_put_off(&self) -> bool {
        self.put_off_until
            .is_some_and(|until| Instant::now() < until)
    }

    /// Where the changelogs were seen to end.
    pub(crate) fn ends(&self, partition: i32) -> [(Channel, Offset); 2] {
        StoreKind::BOTH.map(|kind| {
            let channel = self.changelogs.topic(kind).topic.id.partition(partition);
            (channel, self.targets[&kind])
        })
    }

    /// Whether nothing is left to look for once everything is read.
    pub(crate) fn is_final(&self) -> bool {
        self.are_final
    }

    fn is_done(&self) -> bool {
        self.kinds
            .iter()
            .all(|kind| self.checkpoint.next_of(*kind) >= self.targets[kind])
    }

    fn kind_of(&self, topic: &str) -> StoreKind {
        match topic == self.changelogs.names[0] {
            true => StoreKind::Ordering,
            false => StoreKind::Fold,
        }
    }

    fn take(
        &mut self,
        kind: StoreKind,
        key: Bytes,
        value: Option<Bytes>,
        next: Offset,
    ) -> Result<(), RestoreError> {
        self.pending_bytes += key.len() + value.as_ref().map_or(0, Bytes::len);
        let changes = match kind {
            StoreKind::Ordering => &mut self.pending[0],
            StoreKind::Fold => &mut self.pending[1],
        };
        changes.0.insert(key, value);
        self.checkpoint.advance(kind, next);
        self.records += 1;
        if self.pending_bytes > BATCH_BYTES {
            self.write_down()?;
        }
        Ok(())
    }

    fn write_down(&mut self) -> Result<(), RestoreError> {
        let [ordering, fold] = std::mem::take(&mut self.pending);
        self.pending_bytes = 0;
        Ok(self.state.apply([&ordering, &fold], self.checkpoint)?)
    }

    /// How many records were read, and how many offsets are left.
    pub(crate) fn progress(&self) -> (u64, u64) {
        let left = self.kinds.iter().map(|kind| {
            let left = self.targets[kind].saturating_sub(self.checkpoint.next_of(*kind));
            u64::try_from(left).unwrap_or(0)
        });
        (self.records, left.sum())
    }

    /// Whether nothing of the ordering state is there, once everything is read.
    pub(crate) fn has_no_ordering_state(&self) -> Result<bool, RestoreError> {
        Ok(self.state.is_empty(StoreKind::Ordering)?)
    }

    /// The state, once everything is read.
    pub(crate) fn end(self) -> (TaskState, Checkpoint) {
        (self.state, self.checkpoint)
    }
}

pub(crate) type Offsets = BTreeMap<StoreKind, Offset>;

/// Where the changelogs begin and end. One that there is not has nothing.
pub(crate) fn bounds(
    cluster: &Cluster,
    changelogs: &Changelogs,
    partition: i32,
) -> Result<(Offsets, Offsets), ClusterError> {
    let (mut starts, mut ends) = (Offsets::new(), Offsets::new());
    for kind in StoreKind::BOTH {
        let (start, end) = match changelogs.topic(kind).is_missing() {
            true => (0, 0),
            false => cluster.bounds(changelogs.name(kind), partition)?,
        };
        starts.insert(kind, start);
        ends.insert(kind, end);
    }
    Ok((starts, ends))
}

/// What the local state proves of changelogs: that one went further than it goes now. It is a copy of what was committed there, so the cluster has lost
/// that (decision K23).
fn shortened(
    checkpoint: Option<Checkpoint>,
    changelogs: &Changelogs,
    partition: i32,
    ends: &Offsets,
) -> Option<String> {
    let checkpoint = checkpoint?;
    StoreKind::BOTH.into_iter().zip(checkpoint.topics).find_map(|(kind, copied)| {
        let (next, end) = (checkpoint.next_of(kind), ends[&kind]);
        let is_shorter = copied == changelogs.topic(kind).topic.id && next > end;
        let name = changelogs.name(kind);
        is_shorter.then(|| {
            format!("partition {partition} of {name} ends at {end}, and what is kept here was copied from it up to {next}: the end was lost")
        })
    })
}
