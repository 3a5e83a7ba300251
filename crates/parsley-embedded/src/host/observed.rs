//! What observers are told about: which records arrived in which order, and which of them had to wait.

use std::collections::BTreeMap;

use parsley_core::{Channel, Hold, Offset};
use parsley_stage::{AuditedWait, Processed};

use super::context::Context;
use super::events::{DeliveryEvent, HoldEvent};

/// Follows an execution for its observers. Without observers it keeps nothing.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    /// How many records arrived.
    arrivals: u64,
    /// The ordinals of those that were not delivered yet.
    waiting: BTreeMap<(Channel, Offset), u64>,
    /// Those that arrived since holds were last reported.
    fresh: Vec<(Channel, Offset)>,
}

impl Observed {
    /// Takes note of a record that the task accepted.
    pub(crate) fn arrived(&mut self, context: &Context, channel: Channel, offset: Offset) {
        if context.settings.on_delivery.is_none() && context.settings.on_hold.is_none() {
            return;
        }
        self.waiting.insert((channel, offset), self.arrivals);
        self.arrivals += 1;
        if context.settings.on_hold.is_some() {
            self.fresh.push((channel, offset));
        }
    }

    /// Reports the deliveries of a committed step.
    pub(crate) fn delivered(&mut self, context: &Context, processed: Vec<Processed>) {
        for delivery in processed {
            let arrival = self.waiting.remove(&(delivery.channel, delivery.offset));
            if let Some(observer) = &context.settings.on_delivery {
                observer(&DeliveryEvent {
                    stage: context.stage_name.clone(),
                    partition: context.partition,
                    topic: delivery.topic,
                    channel: delivery.channel,
                    offset: delivery.offset,
                    timestamp_ms: delivery.timestamp_ms,
                    key: delivery.key,
                    clock: delivery.clock,
                    was_held: delivery.was_held,
                    arrival,
                });
            }
        }
    }

    /// Reports what arrived and is held after a drain that ran to its end. The holds are asked for when there is something to report.
    pub(crate) fn drained(&mut self, context: &Context, holds: impl FnOnce() -> Vec<Hold>) {
        let fresh = std::mem::take(&mut self.fresh);
        let held: Vec<_> = fresh
            .into_iter()
            .filter_map(|at| Some((at, *self.waiting.get(&at)?)))
            .collect();
        let Some(observer) = &context.settings.on_hold else {
            return;
        };
        if held.is_empty() {
            return;
        }
        let holds = holds().into_iter();
        let heads: BTreeMap<Channel, Hold> = holds.map(|hold| (hold.channel, hold)).collect();
        for ((channel, offset), arrival) in held {
            let Some(head) = heads.get(&channel) else {
                continue;
            };
            observer(&HoldEvent {
                stage: context.stage_name.clone(),
                partition: context.partition,
                topic: context.topic_name(channel.topic),
                channel,
                offset,
                arrival,
                head: head.offset,
                waits: head
                    .waits
                    .iter()
                    .map(|wait| AuditedWait {
                        topic: context.topic_name(wait.channel().topic),
                        wait: *wait,
                    })
                    .collect(),
            });
        }
    }
}
