//! What a cluster owes an application.

use parsley_core::RefusalCode;

use super::{ProbeError, is_denied};
use crate::changelog::ChangelogError;
use crate::stage::StageError;

/// What a cluster owes an application. Each clause has a code that stays, says where it is written, and what to do about a breach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Clause {
    /// The host can work with its configuration.
    Configuration,
    /// The topics of the declaration are there.
    TopicThere,
    /// The cluster shows the topics, with their identities and settings, to this client.
    TopicShown,
    /// The topics that are shown may be read, written, or both, as the stage does.
    Access,
    /// The inputs of a stage have the same number of partitions.
    CoPartition,
    /// The tick topic of a stage has exactly as many partitions as the widest input.
    TickTopic,
    /// No input is compacted.
    NotCompacted,
    /// The topic of the account of deliveries is nobody else's, and wide enough.
    Account,
    /// A changelog topic is there, or can be made.
    ChangelogMade,
    /// A changelog topic is compacted, and nothing else.
    ChangelogPolicy,
    /// A changelog topic has a partition for each task (G15).
    TaskWidth,
    /// The group's positions can be read.
    PositionsShown,
    /// What the group has not been delivered is still there (G10).
    PositionsKept,
    /// Where the group has positions, there is state (G11), and its changelogs belong together.
    StateKept,
    /// The stored state is as it was written (G7).
    StateTrusted,
    /// The group's positions do not lie beyond the state (G16).
    PositionsCovered,
    /// An input that holds records is still declared, and still there (G8, G9).
    HeldInputs,
    /// The cluster shows the topics that the stored state has to do with and the declaration does not.
    FormerTopicShown,
    /// What the group has not been delivered is not about to be deleted.
    RetentionBeyondLag,
    /// The brokers take transactions that last as long as the host's.
    TransactionTimeout,
    /// The transactional ids of the host's producers may be used.
    TransactionalIds,
}

impl Clause {
    /// All clauses.
    pub const ALL: [Self; 21] = [
        Self::Configuration,
        Self::TopicThere,
        Self::TopicShown,
        Self::Access,
        Self::CoPartition,
        Self::TickTopic,
        Self::NotCompacted,
        Self::Account,
        Self::ChangelogMade,
        Self::ChangelogPolicy,
        Self::TaskWidth,
        Self::PositionsShown,
        Self::PositionsKept,
        Self::StateKept,
        Self::StateTrusted,
        Self::PositionsCovered,
        Self::HeldInputs,
        Self::FormerTopicShown,
        Self::RetentionBeyondLag,
        Self::TransactionTimeout,
        Self::TransactionalIds,
    ];

    /// The clause's code. It stays the same in later versions.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Configuration => "probe-configuration",
            Self::TopicThere => "probe-topic-there",
            Self::TopicShown => "probe-topic-shown",
            Self::Access => "probe-access",
            Self::CoPartition => "probe-co-partition",
            Self::TickTopic => "probe-tick-topic",
            Self::NotCompacted => "probe-not-compacted",
            Self::Account => "probe-account",
            Self::ChangelogMade => "probe-changelog-made",
            Self::ChangelogPolicy => "probe-changelog-policy",
            Self::TaskWidth => "probe-task-width",
            Self::PositionsShown => "probe-positions-shown",
            Self::PositionsKept => "probe-positions-kept",
            Self::StateKept => "probe-state-kept",
            Self::StateTrusted => "probe-state-trusted",
            Self::PositionsCovered => "probe-positions-covered",
            Self::HeldInputs => "probe-held-inputs",
            Self::FormerTopicShown => "probe-former-topic-shown",
            Self::RetentionBeyondLag => "probe-retention-beyond-lag",
            Self::TransactionTimeout => "probe-transaction-timeout",
            Self::TransactionalIds => "probe-transactional-ids",
        }
    }

    /// Where it is written.
    pub const fn written(self) -> &'static str {
        match self {
            Self::Configuration => "docs/operations.md, configuration; decision K21",
            Self::TopicThere => "docs/protocol.md, Guards, G6 vc-missing-sink",
            Self::TopicShown => "docs/protocol.md, Truncation; decisions K1, K11",
            Self::Access => "docs/operations.md, Access; decision K39",
            Self::CoPartition => "docs/protocol.md, Words, received channels",
            Self::TickTopic => "docs/protocol.md, State, Tick record",
            Self::NotCompacted => "docs/protocol.md, Guards, G10 vc-positions-lost",
            Self::Account => "decisions E11, K15",
            Self::ChangelogMade | Self::ChangelogPolicy => "docs/protocol.md, State; decision K10",
            Self::TaskWidth => "docs/protocol.md, Guards, G15 vc-task-width",
            Self::PositionsShown => "docs/protocol.md, Baselines and duplicates",
            Self::PositionsKept | Self::RetentionBeyondLag => {
                "docs/protocol.md, Guards, G10 vc-positions-lost"
            }
            Self::StateKept => "docs/protocol.md, Guards, G11 vc-state-lost",
            Self::StateTrusted => "docs/protocol.md, Guards, G7 vc-corrupt-state",
            Self::PositionsCovered => "docs/protocol.md, Guards, G16 vc-positions-ahead",
            Self::HeldInputs => {
                "docs/protocol.md, Guards, G8 vc-removed-input-held, G9 vc-deleted-input-held"
            }
            Self::FormerTopicShown => "docs/protocol.md, Scope changes; decision K11",
            Self::TransactionTimeout => "docs/operations.md, Sizing; decision K38",
            Self::TransactionalIds => "docs/operations.md, Access; decision K42",
        }
    }

    /// What to do about a breach.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Configuration => "set it as the message says",
            Self::TopicThere => "create the topics",
            Self::TopicShown => {
                "grant Describe and DescribeConfigs on the topic; Apache Kafka 3.7 or newer is needed"
            }
            Self::Access => {
                "grant Read on inputs, Write on sinks and the account, both on changelogs and tick topics"
            }
            Self::CoPartition => "give all inputs of the stage the same number of partitions",
            Self::TickTopic => "create the tick topic anew with that number of partitions",
            Self::NotCompacted => {
                "set cleanup.policy=delete, or copy what is there to another topic"
            }
            Self::Account => {
                "name a topic of its own, with a partition for each task of the widest stage"
            }
            Self::ChangelogMade => {
                "nothing has to be done if the host may make it; otherwise create it with cleanup.policy=compact and a partition for each task"
            }
            Self::ChangelogPolicy => "set cleanup.policy=compact on it",
            Self::TaskWidth => RefusalCode::TaskWidth.remedy(),
            Self::PositionsShown => {
                "grant Read on the group, or see why its coordinator does not answer"
            }
            Self::PositionsKept => RefusalCode::PositionsLost.remedy(),
            Self::StateKept => RefusalCode::StateLost.remedy(),
            Self::StateTrusted => RefusalCode::CorruptState.remedy(),
            Self::PositionsCovered => RefusalCode::PositionsAhead.remedy(),
            Self::HeldInputs => RefusalCode::RemovedInputHeld.remedy(),
            Self::FormerTopicShown => "grant Describe on it",
            Self::RetentionBeyondLag => "lengthen retention.ms, or have the application catch up",
            Self::TransactionTimeout => {
                "keep it within what every broker sets, which brokers show to those with DescribeConfigs on the cluster"
            }
            Self::TransactionalIds => "grant Write and Describe on transactional ids",
        }
    }
}

impl Clause {
    /// The clause that a guard's refusal of a task that opens is about.
    pub(super) fn of_refusal(code: RefusalCode) -> Self {
        match code {
            RefusalCode::MissingSink => Self::TopicThere,
            RefusalCode::RemovedInputHeld | RefusalCode::DeletedInputHeld => Self::HeldInputs,
            RefusalCode::PositionsLost => Self::PositionsKept,
            RefusalCode::StateLost => Self::StateKept,
            RefusalCode::TaskWidth => Self::TaskWidth,
            RefusalCode::PositionsAhead => Self::PositionsCovered,
            // The others are no refusals of an opening but G7.
            _ => Self::StateTrusted,
        }
    }
}

/// The clause that a refusal of a stage is about, and the topics. Fails when the cluster did not answer.
pub(super) fn of(error: &StageError) -> Result<(Clause, Vec<String>), ProbeError> {
    Ok(match error {
        StageError::Cluster(error) | StageError::Changelog(ChangelogError::Cluster(error)) => {
            match is_denied(error) {
                true => (Clause::TopicShown, Vec::new()),
                false => return Err(error.clone().into()),
            }
        }
        StageError::MissingTopics { topics } => (Clause::TopicThere, topics.clone()),
        StageError::CoPartition { partitions, .. } => {
            (Clause::CoPartition, partitions.keys().cloned().collect())
        }
        StageError::TickTopicWidth(width) => (Clause::TickTopic, vec![width.topic.clone()]),
        StageError::CompactedInputs { topics } => (Clause::NotCompacted, topics.clone()),
        StageError::Refused { .. } => (Clause::TaskWidth, Vec::new()),
        StageError::Changelog(ChangelogError::Create { topic, .. }) => {
            (Clause::ChangelogMade, vec![topic.clone()])
        }
        StageError::Changelog(ChangelogError::Policy { topic, .. }) => {
            (Clause::ChangelogPolicy, vec![topic.clone()])
        }
        StageError::Changelog(ChangelogError::Partitions { topic, .. }) => {
            (Clause::TaskWidth, vec![topic.clone()])
        }
        StageError::AuditDeclared { topic } | StageError::AuditPartitions { topic, .. } => {
            (Clause::Account, vec![topic.clone()])
        }
    })
}
