//! A protocol without a task around it: the plan's emissions, stamped in order, with a wait at each change of partition.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use parsley_core::{
    Channel, Hold, Node, NodeConfig, Offset, OpenFacts, Opened, Receipt, Record, Staged, Stamp,
    TopicId,
};
use parsley_stage::partition::partition_of;
use parsley_stage::{SendOrder, TopicInfo};

use super::{AnyMark, Finished, Handed, Send, SharedStore};
use crate::host::Stop;
use crate::payload::{self, Payload};
use crate::plan::{Declaration, Driver, StagePlan, TopicName};

/// How many emissions may wait for acknowledgements before the step has to end.
const WAITING_MAX: usize = 16;

/// A delivery with its content.
pub(crate) struct Content {
    pub handed: Handed,
    pub timestamp_ms: i64,
    pub key: Option<Bytes>,
    pub value: Option<Bytes>,
}

/// An implementation of the protocol.
pub(crate) trait Protocol {
    fn receive(&mut self, record: Record) -> Result<Receipt, Stop>;
    fn advance(&mut self, channel: Channel, next: Offset) -> Result<(), Stop>;
    fn next_delivery(&mut self) -> Result<Option<Content>, Stop>;
    fn prepare_send(&mut self, channel: Channel) -> Result<Stamp, Stop>;
    fn fence(&mut self, acks: &[(Channel, Offset)]) -> Result<(), Stop>;
    fn commit(&mut self, acks: &[(Channel, Offset)]) -> Result<Finished, Stop>;
    fn mark(&mut self) -> AnyMark;
    fn watermarks(
        &mut self,
        mark: &AnyMark,
        watermarks: &BTreeMap<Channel, Offset>,
    ) -> Result<(), Stop>;
    fn check(
        &mut self,
        log_starts: &BTreeMap<Channel, Offset>,
        gone: &BTreeSet<TopicId>,
    ) -> Result<(), Stop>;
    fn truncate(
        &mut self,
        drop_below: &BTreeMap<Channel, Offset>,
        drop_gone: &BTreeSet<TopicId>,
    ) -> Result<(), Stop>;
    fn stamp_channels(&self) -> Vec<Channel>;
    fn holds(&self) -> Vec<Hold>;
    fn held(&self) -> u64;
    fn evidence_channels(&self) -> (BTreeSet<Channel>, BTreeSet<Channel>);
    /// All that the protocol has in memory, as text.
    fn in_memory(&self) -> impl fmt::Debug + '_;
}

/// What a bare protocol needs to know of its stage.
#[derive(Clone)]
pub(crate) struct BareConfig {
    pub stage: usize,
    pub partition: i32,
    pub declaration: Arc<Declaration>,
    pub topics: BTreeMap<String, TopicInfo>,
    pub plan: Arc<StagePlan>,
}

impl BareConfig {
    /// Whether what a delivery of the topic under this key sends follows from nothing sent before it in the step (decisions S12 and T11). A bare
    /// node of its own makes no use of that.
    fn sends_apart(&self, topic: TopicName, key: Option<u64>) -> bool {
        let keyless = key.is_none() && !self.plan.stateful;
        self.plan.driver == Driver::Task
            && self.declaration.ticks != Some(topic)
            && (keyless || self.plan.send_order == SendOrder::PerDelivery)
    }

    /// What a record of the topic carries.
    fn payload_of(&self, topic: TopicName, content: &Content) -> Option<Payload> {
        if self.declaration.ticks == Some(topic) {
            let at = content.timestamp_ms;
            return Some(Payload::of_tick(self.stage, self.partition, at));
        }
        content.value.as_deref().and_then(Payload::of_bytes)
    }

    fn name_of(&self, topic: TopicId) -> Option<TopicName> {
        self.declaration
            .consumed()
            .find(|&name| self.topics.get(name).is_some_and(|info| info.id == topic))
    }

    fn channel(&self, topic: TopicName, key: Option<&Bytes>) -> Result<Channel, Stop> {
        let info = self.topics.get(topic);
        let info =
            info.ok_or_else(|| Stop::Failed(format!("the topic {topic} does not resolve")))?;
        let partition = match self.declaration.ticks {
            Some(ticks) if ticks == topic => self.partition,
            _ => partition_of(key.map(AsRef::as_ref), info.partitions),
        };
        Ok(info.id.partition(partition))
    }
}

/// A record before its stamp.
#[derive(Debug)]
struct Emitted {
    channel: Channel,
    timestamp_ms: i64,
    key: Option<Bytes>,
    value: Option<Bytes>,
}

/// A protocol and what a host of it keeps.
pub(crate) struct Bare<P> {
    pub protocol: P,
    config: BareConfig,
    /// Emitted and not stamped yet.
    waiting: VecDeque<Emitted>,
    ready: Vec<Send>,
    /// The channels of the sends that are not acknowledged yet.
    unacknowledged: BTreeSet<Channel>,
    deliveries: usize,
}

impl<P: Protocol> Bare<P> {
    pub fn new(protocol: P, config: BareConfig) -> Self {
        Self {
            protocol,
            config,
            waiting: VecDeque::new(),
            ready: Vec::new(),
            unacknowledged: BTreeSet::new(),
            deliveries: 0,
        }
    }

    /// All that is in memory, as text.
    pub fn in_memory(&self) -> impl fmt::Debug + '_ {
        let waiting = (&self.waiting, &self.ready, &self.unacknowledged);
        (self.protocol.in_memory(), waiting, self.deliveries)
    }

    pub fn process_next(&mut self) -> Result<Option<Handed>, Stop> {
        if self.step_is_full() {
            return Ok(None);
        }
        let Some(content) = self.protocol.next_delivery()? else {
            return Ok(None);
        };
        self.deliveries += 1;
        let name = self.config.name_of(content.handed.channel.topic);
        let payload = name.and_then(|name| self.config.payload_of(name, &content));
        if let (Some(name), Some(payload)) = (name, payload) {
            let key = payload::key_of(content.key.as_ref());
            let (declaration, stage) = (Arc::clone(&self.config.declaration), self.config.stage);
            let mut apart = self.config.sends_apart(name, key);
            for emission in payload::emissions(&declaration, stage, name, key, payload) {
                let apart = std::mem::take(&mut apart);
                let key = emission.key.map(payload::key_bytes);
                let emitted = Emitted {
                    channel: self.config.channel(emission.to, key.as_ref())?,
                    timestamp_ms: content.timestamp_ms,
                    key,
                    value: Some(emission.payload.to_bytes()),
                };
                self.emit(emitted, apart)?;
            }
        }
        Ok(Some(content.handed))
    }

    /// `apart`: the send need not wait for what is out.
    fn emit(&mut self, emitted: Emitted, apart: bool) -> Result<(), Stop> {
        if apart && self.waiting.is_empty() {
            return self.stamp(emitted);
        }
        self.waiting.push_back(emitted);
        self.stamp_what_may_go()
    }

    /// `false` when the stage declares no ticks.
    pub fn tick(&mut self, timestamp_ms: i64) -> Result<bool, Stop> {
        let BareConfig {
            declaration,
            partition,
            plan,
            ..
        } = &self.config;
        let Some(ticks) = declaration.ticks else {
            return Ok(false);
        };
        let apart = plan.driver == Driver::Task;
        let key = payload::tick_key(*partition);
        let emitted = Emitted {
            channel: self.config.channel(ticks, Some(&key))?,
            timestamp_ms,
            key: Some(key),
            value: None,
        };
        self.emit(emitted, apart)?;
        Ok(true)
    }

    /// Sends to one partition go out in a row; a change of partition waits for what is out.
    fn stamp_what_may_go(&mut self) -> Result<(), Stop> {
        while let Some(next) = self.waiting.front() {
            if self.unacknowledged.iter().any(|&out| out != next.channel) {
                break;
            }
            let Some(next) = self.waiting.pop_front() else {
                break;
            };
            self.stamp(next)?;
        }
        Ok(())
    }

    fn stamp(&mut self, emitted: Emitted) -> Result<(), Stop> {
        let Emitted {
            channel,
            timestamp_ms,
            key,
            value,
        } = emitted;
        self.unacknowledged.insert(channel);
        let stamp = self.protocol.prepare_send(channel)?;
        self.ready.push(Send {
            record: Record {
                channel,
                offset: 0,
                timestamp_ms,
                key,
                value,
                headers: stamp.headers().to_vec(),
            },
        });
        Ok(())
    }

    pub fn take_sends(&mut self) -> Vec<Send> {
        std::mem::take(&mut self.ready)
    }

    pub fn step_is_full(&self) -> bool {
        self.deliveries >= self.config.plan.step_deliveries_max || self.waiting.len() >= WAITING_MAX
    }

    pub fn has_later_rounds(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub fn fence(&mut self, acks: &[(Channel, Offset)]) -> Result<(), Stop> {
        self.protocol.fence(acks)?;
        self.unacknowledged.clear();
        self.stamp_what_may_go()
    }

    pub fn finish(&mut self, acks: &[(Channel, Offset)]) -> Result<Finished, Stop> {
        self.protocol.commit(acks)
    }

    pub fn committed(&mut self) {
        self.unacknowledged.clear();
        self.deliveries = 0;
    }
}

/// The real node over a staged store.
pub(crate) struct NodeProtocol {
    node: Node,
    store: Staged<SharedStore>,
}

impl NodeProtocol {
    pub fn open(
        config: NodeConfig,
        facts: &OpenFacts,
        store: SharedStore,
    ) -> Result<(Self, Opened), Stop> {
        let mut store = Staged::over(store);
        let (node, opened) = Node::open(config, facts, &mut store)?;
        Ok((Self { node, store }, opened))
    }
}

impl Protocol for NodeProtocol {
    fn receive(&mut self, record: Record) -> Result<Receipt, Stop> {
        Ok(self.node.receive(record)?)
    }

    fn advance(&mut self, channel: Channel, next: Offset) -> Result<(), Stop> {
        Ok(self.node.advance(channel, next)?)
    }

    fn next_delivery(&mut self) -> Result<Option<Content>, Stop> {
        let delivery = self.node.next_delivery(&self.store)?;
        Ok(delivery.map(|delivery| Content {
            handed: Handed {
                channel: delivery.channel,
                offset: delivery.offset,
                was_held: delivery.was_held,
            },
            timestamp_ms: delivery.timestamp_ms,
            key: delivery.key,
            value: delivery.value,
        }))
    }

    fn prepare_send(&mut self, channel: Channel) -> Result<Stamp, Stop> {
        Ok(self.node.prepare_send(channel)?)
    }

    fn fence(&mut self, acks: &[(Channel, Offset)]) -> Result<(), Stop> {
        Ok(self.node.fence(acks)?)
    }

    fn commit(&mut self, acks: &[(Channel, Offset)]) -> Result<Finished, Stop> {
        let positions = self.node.commit(acks, &mut self.store)?;
        Ok(Finished {
            positions,
            ordering: self.store.take_changes(),
            ..Finished::default()
        })
    }

    fn mark(&mut self) -> AnyMark {
        AnyMark::Node(self.node.mark())
    }

    fn watermarks(
        &mut self,
        mark: &AnyMark,
        watermarks: &BTreeMap<Channel, Offset>,
    ) -> Result<(), Stop> {
        match mark {
            AnyMark::Node(mark) => Ok(self.node.watermarks(mark, watermarks)?),
            AnyMark::Model(_) => Ok(()),
        }
    }

    fn check(
        &mut self,
        log_starts: &BTreeMap<Channel, Offset>,
        gone: &BTreeSet<TopicId>,
    ) -> Result<(), Stop> {
        Ok(self.node.check(log_starts, gone)?)
    }

    fn truncate(
        &mut self,
        drop_below: &BTreeMap<Channel, Offset>,
        drop_gone: &BTreeSet<TopicId>,
    ) -> Result<(), Stop> {
        Ok(self.node.truncate(drop_below, drop_gone)?)
    }

    fn stamp_channels(&self) -> Vec<Channel> {
        self.node.stamp_channels()
    }

    fn holds(&self) -> Vec<Hold> {
        self.node.holds()
    }

    fn held(&self) -> u64 {
        self.node.held()
    }

    fn in_memory(&self) -> impl fmt::Debug + '_ {
        (&self.node, self.store.changes())
    }

    fn evidence_channels(&self) -> (BTreeSet<Channel>, BTreeSet<Channel>) {
        (
            self.node.channels_waited_for_by_sequence(),
            self.node.channels_claimed_by_sequence(),
        )
    }
}
