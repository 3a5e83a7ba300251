//! The naive model as a simulated task's protocol: whole, to check the kit against a second implementation, or with one rule broken, to
//! check that the kit notices.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use parsley_core::{
    Channel, Hold, HoldCode, Id, Joined, NodeConfig, NodeLimits, Offset, OffsetClaim, OpenFacts,
    Opened, Receipt, Record, Scope, SenderId, SequenceClaim, Stamp, TopicId, Wait,
};
use parsley_model as naive;

use super::bare::{Content, Protocol};
use super::{AnyMark, Finished, Handed};
use crate::host::Stop;

/// A model and its committed bytes, which outlive an execution.
#[derive(Clone, Debug)]
pub(crate) struct SharedModel(Arc<Mutex<naive::Model>>);

impl SharedModel {
    pub fn new(broken: Option<naive::Broken>) -> Self {
        Self(Arc::new(Mutex::new(
            naive::Model::default().breaking(broken),
        )))
    }

    /// The rule that it breaks.
    pub fn broken(&self) -> Option<naive::Broken> {
        self.lock().broken()
    }

    /// The committed bytes, and the execution while one runs, as text.
    pub fn content(&self) -> impl fmt::Debug + '_ {
        self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, naive::Model> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loses the first committed key of this kind.
    pub fn lose_first(&self, is_lost: impl Fn(&[u8]) -> bool) {
        let mut model = self.lock();
        let mut store = model.store().clone();
        let lost = store.keys().find(|key| is_lost(key.as_bytes())).cloned();
        if let Some(key) = lost {
            store.remove(&key);
            *model = naive::Model::over(store, NodeLimits::default().clock_budget_bytes)
                .breaking(model.broken());
        }
    }

    /// The scope that the last committed execution recorded.
    pub fn recorded_scope(&self) -> Option<Scope> {
        let model = self.lock();
        let bytes = Bytes::copy_from_slice(model.store().get("scope")?);
        Scope::from_bytes(&bytes).ok()
    }

    /// The execution ends, and what was not committed with it.
    pub fn stop(&self) {
        let mut model = self.lock();
        if model.running() {
            model.abort();
        }
        if model.running() {
            model.stop();
        }
    }
}

/// A model as a protocol.
pub(crate) struct ModelProtocol {
    model: SharedModel,
    sender: SenderId,
}

impl ModelProtocol {
    pub fn open(
        config: &NodeConfig,
        name: String,
        facts: &OpenFacts,
        model: SharedModel,
    ) -> Result<(Self, Opened), Stop> {
        let line = naive::OpenLine {
            name,
            inputs: config
                .inputs
                .iter()
                .map(|&channel| plain(channel))
                .collect(),
            sinks: config
                .sinks
                .iter()
                .map(|sink| (plain_topic(sink.topic), sink.partitions))
                .collect(),
            start: plain_map(&facts.start),
            ends: plain_map(&facts.ends),
            log_starts: plain_map(&facts.log_starts),
            deleted: plain_topics(&facts.gone),
            unresolved: plain_topics(&facts.unresolved),
            group_has_positions: facts.group_has_positions,
        };
        let opened = model.lock().open(&line).map_err(refused)?;
        let opened = Opened {
            resume: opened
                .resume
                .iter()
                .map(|(&on, &at)| (channel(on), at))
                .collect(),
            joined: opened
                .joined
                .iter()
                .map(|(&on, &seed)| Joined {
                    channel: channel(on),
                    seed,
                })
                .collect(),
        };
        let sender = config.sender;
        Ok((Self { model, sender }, opened))
    }
}

impl Protocol for ModelProtocol {
    fn receive(&mut self, record: Record) -> Result<Receipt, Stop> {
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let vec = |bytes: &Bytes| bytes.to_vec();
        let fetched = naive::Fetched {
            offset: record.offset,
            timestamp: record.timestamp_ms,
            key: record.key.as_ref().map(vec),
            value: record.value.as_ref().map(vec),
            headers: record
                .headers
                .iter()
                .map(|header| (text(&header.name), header.value.as_ref().map(vec)))
                .collect(),
        };
        let mut model = self.model.lock();
        match model.receive(plain(record.channel), &fetched) {
            Ok(true) => Ok(Receipt::Dropped),
            Ok(false) => Ok(Receipt::Accepted),
            Err(why) => Err(refused(why)),
        }
    }

    fn advance(&mut self, channel: Channel, next: Offset) -> Result<(), Stop> {
        self.model
            .lock()
            .position(plain(channel), next)
            .map_err(refused)
    }

    fn next_delivery(&mut self) -> Result<Option<Content>, Stop> {
        let delivery = self.model.lock().deliver_next();
        Ok(delivery.map(|delivery| Content {
            handed: Handed {
                channel: channel(delivery.on),
                offset: delivery.record.offset,
                was_held: delivery.was_held,
            },
            timestamp_ms: delivery.record.timestamp,
            key: delivery.record.key.map(Into::into),
            value: delivery.record.value.map(Into::into),
        }))
    }

    fn prepare_send(&mut self, channel: Channel) -> Result<Stamp, Stop> {
        let stamp = self.model.lock().send(plain(channel)).map_err(refused)?;
        Ok(Stamp {
            channel,
            sender: self.sender,
            sequence: stamp.sequence,
            clock: stamp.bytes.into(),
        })
    }

    fn fence(&mut self, acks: &[(Channel, Offset)]) -> Result<(), Stop> {
        self.model.lock().fence(&plain_acks(acks));
        Ok(())
    }

    fn commit(&mut self, acks: &[(Channel, Offset)]) -> Result<Finished, Stop> {
        let positions = self.model.lock().commit(&plain_acks(acks));
        Ok(Finished {
            positions: positions
                .into_iter()
                .map(|(on, at)| (channel(on), at))
                .collect(),
            ..Finished::default()
        })
    }

    fn mark(&mut self) -> AnyMark {
        AnyMark::Model(self.model.lock().mark())
    }

    fn watermarks(
        &mut self,
        mark: &AnyMark,
        watermarks: &BTreeMap<Channel, Offset>,
    ) -> Result<(), Stop> {
        if let AnyMark::Model(mark) = mark {
            self.model.lock().watermarks(mark, &plain_map(watermarks));
        }
        Ok(())
    }

    fn check(
        &mut self,
        log_starts: &BTreeMap<Channel, Offset>,
        gone: &BTreeSet<TopicId>,
    ) -> Result<(), Stop> {
        let mut model = self.model.lock();
        model
            .check(&plain_map(log_starts), &plain_topics(gone))
            .map_err(refused)
    }

    fn truncate(
        &mut self,
        drop_below: &BTreeMap<Channel, Offset>,
        drop_gone: &BTreeSet<TopicId>,
    ) -> Result<(), Stop> {
        self.model
            .lock()
            .sweep(&plain_map(drop_below), &plain_topics(drop_gone));
        Ok(())
    }

    fn stamp_channels(&self) -> Vec<Channel> {
        let channels = self.model.lock().stamp_channels();
        channels.into_iter().map(channel).collect()
    }

    fn holds(&self) -> Vec<Hold> {
        let holds = self.model.lock().holds();
        let hold = |hold: naive::Hold| Hold {
            channel: channel(hold.on),
            offset: hold.offset,
            behind: hold.behind as u64,
            waits: hold.waits.into_iter().map(wait).collect(),
        };
        holds.into_iter().map(hold).collect()
    }

    fn held(&self) -> u64 {
        self.model.lock().held() as u64
    }

    fn in_memory(&self) -> impl fmt::Debug + '_ {
        self.model.lock()
    }

    fn evidence_channels(&self) -> (BTreeSet<Channel>, BTreeSet<Channel>) {
        let model = self.model.lock();
        let channels = |found: BTreeSet<naive::Channel>| found.into_iter().map(channel).collect();
        (
            channels(model.waited_for_by_sequence()),
            channels(model.channels_claimed_by_sequence()),
        )
    }
}

fn wait(wait: naive::Wait) -> Wait {
    match wait {
        naive::Wait::Offset {
            on,
            offset,
            settled,
            code,
        } => Wait::Offset {
            claim: OffsetClaim {
                channel: channel(on),
                offset,
            },
            settled,
            code: code_of(code),
        },
        naive::Wait::Sequence {
            on,
            sender,
            sequence,
            delivered,
            code,
        } => Wait::Sequence {
            claim: SequenceClaim {
                channel: channel(on),
                sender: SenderId(Id {
                    msb: sender.0,
                    lsb: sender.1,
                }),
                sequence,
            },
            delivered,
            code: code_of(code),
        },
    }
}

fn code_of(code: &str) -> HoldCode {
    let known = [
        HoldCode::NotFetched,
        HoldCode::HeldUpstream,
        HoldCode::SenderUnseen,
    ];
    known
        .into_iter()
        .find(|known| known.as_str() == code)
        .unwrap_or(HoldCode::SenderBehind)
}

fn refused(why: naive::Refused) -> Stop {
    Stop::Refused {
        code: why.code.to_owned(),
        found: why.to_string(),
    }
}

fn channel(on: naive::Channel) -> Channel {
    let (msb, lsb) = naive::topic_of(on);
    TopicId(Id { msb, lsb }).partition(on.2)
}

fn plain(channel: Channel) -> naive::Channel {
    naive::channel(plain_topic(channel.topic), channel.partition)
}

fn plain_topic(topic: TopicId) -> naive::Topic {
    (topic.0.msb, topic.0.lsb)
}

fn plain_map(map: &BTreeMap<Channel, Offset>) -> BTreeMap<naive::Channel, i64> {
    map.iter().map(|(&on, &at)| (plain(on), at)).collect()
}

fn plain_acks(acks: &[(Channel, Offset)]) -> BTreeMap<naive::Channel, i64> {
    acks.iter().map(|&(on, at)| (plain(on), at)).collect()
}

fn plain_topics(topics: &BTreeSet<TopicId>) -> BTreeSet<naive::Topic> {
    topics.iter().map(|&topic| plain_topic(topic)).collect()
}
