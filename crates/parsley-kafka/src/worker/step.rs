//! A step: what is delivered, and how it ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parsley_core::{Channel, Offset};
use parsley_stage::RawSend;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;

use super::{Session, Slot, Trouble, now_ms};
use crate::producer::{Acknowledged, ProduceError, Producer, Send};
use crate::state::StoreKind;

impl Session<'_> {
    /// Emits the ticks that are due, delivers what can be delivered, and hands over what is sent at once. Where deliveries have to wait, ticks do
    /// (decision K37).
    pub(super) fn deliver(&mut self) -> Result<(), Trouble> {
        self.is_draining = false;
        if self.check_is_overdue() {
            return Ok(());
        }
        self.tick()?;
        // A step that nothing was fed to begins here, and not behind its first delivery: what would be left of it then went to whoever is next, as its
        // turn.
        let begun = Instant::now();
        let interval = self.worker.declared.config.commit_interval;
        let until = begun + self.until_step_end().unwrap_or(interval);
        let mut partitions: Vec<i32> = self.slots.keys().copied().collect();
        let first = partitions.partition_point(|partition| *partition < self.goes_first);
        partitions.rotate_left(first);
        let Self {
            slots,
            producer,
            step_since,
            ..
        } = self;
        for partition in partitions {
            let Some(Slot::Running(task)) = slots.get_mut(&partition) else {
                continue;
            };
            while !task.task.step_is_full() {
                let sends = task
                    .deliver()
                    .map_err(|error| Trouble::task(partition, error))?;
                let Some(sends) = sends else { break };
                // What an earlier step did not reach begins a step as well.
                step_since.get_or_insert(begun);
                hand_over(producer, partition, sends)?;
                if Instant::now() >= until {
                    break;
                }
            }
            self.is_draining |= task.task.step_is_full();
            if Instant::now() >= until {
                // There may be more, of this one or of those behind it, which go first then.
                self.is_draining = true;
                self.goes_first = partition.saturating_add(1);
                break;
            }
        }
        producer.poll();
        Ok(())
    }

    /// How long until the step at hand is due to end; `None` between steps.
    pub(super) fn until_step_end(&self) -> Option<Duration> {
        let end = self.step_since? + self.worker.declared.config.commit_interval;
        Some(end.saturating_duration_since(Instant::now()))
    }

    /// Ends the step at hand: the later rounds, the changelog with the positions beside it, the commit; then the local state.
    pub(super) fn end_step(&mut self) -> Result<(), Trouble> {
        let begun = self.step_since.take().unwrap_or_else(Instant::now);
        if !self.running().any(|(_, task)| task.is_dirty) && !self.producer.is_open() {
            return Ok(());
        }
        self.producer.begin()?;
        let until = self.producer.deadline();
        self.send_rounds(until)?;
        self.write_account()?;
        self.write_changelogs()?;
        let positions = self.positions();
        if positions.is_empty() {
            // All inputs are gone: there is nothing to do any more, and no position that a commit could go by.
            self.abort(until)?;
            self.slots
                .retain(|_, slot| !matches!(slot, Slot::Running(_)));
            let left: Vec<i32> = self.slots.keys().copied().collect();
            self.worker.board.assigned(self.worker.number, &left);
            return Ok(());
        }
        // The place in the group that the partitions came with, and no later one: what was fed belongs to it.
        let Some(group) = &self.membership else {
            let what = "the group went on without this member";
            let source = KafkaError::ConsumerCommit(RDKafkaErrorCode::UnknownMemberId);
            return Err(ProduceError::Abort { what, source }.into());
        };
        let named: Vec<(&str, i32, Offset)> = positions
            .iter()
            .filter_map(|(channel, position)| {
                let topic = self.resolved.name_of(channel.topic)?;
                Some((&**topic, channel.partition, *position))
            })
            .collect();
        self.producer.send_positions(&named, group, until)?;
        let acknowledged = self.flush(until)?;
        self.producer.commit(until)?;
        let now_ms = now_ms();
        let (board, number) = (Arc::clone(&self.worker.board), self.worker.number);
        let mut is_overcome = false;
        let mut applied = Ok(());
        let Self {
            slots,
            worker,
            resolved,
            ..
        } = self;
        for (&partition, slot) in slots.iter_mut() {
            let Slot::Running(task) = slot else { continue };
            let counts = task.counts;
            let written = StoreKind::BOTH.map(|kind| {
                let channel = resolved
                    .changelogs
                    .topic(kind)
                    .topic
                    .id
                    .partition(partition);
                acknowledged.on(partition, channel)
            });
            is_overcome |= worker.failing.is_overcome_by(partition, &task.processed);
            let (deliveries, held) = (&task.processed, task.task.held());
            let settled = task.task.settled();
            board.committed(number, partition, counts, deliveries, held, settled);
            worker.step_committed(partition, task);
            if counts.ticks > 0 {
                worker.ticks.committed(partition);
            }
            // Committed is committed, whatever becomes of the local copy.
            applied = applied.and(task.committed(written, now_ms));
        }
        self.worker
            .meter
            .step_committed(begun.elapsed().as_secs_f64());
        if is_overcome {
            self.recovered();
        }
        applied?;
        // Who stops needs no other.
        if self.producer.is_spent() && !self.worker.stop.is_raised() {
            self.replace_producer()?;
        }
        Ok(())
    }

    /// Sends round after round, each when all of the one before is acknowledged.
    fn send_rounds(&mut self, until: Instant) -> Result<(), Trouble> {
        loop {
            let acknowledged = self.flush(until)?;
            let Self {
                slots, producer, ..
            } = self;
            let mut goes_on = false;
            for (&partition, slot) in slots.iter_mut() {
                let Slot::Running(task) = slot else { continue };
                let acknowledged = acknowledged.of(partition);
                let failed = |error| Trouble::task(partition, error);
                if task.task.has_later_rounds() {
                    task.task.fence(&acknowledged).map_err(failed)?;
                    hand_over(producer, partition, task.task.drain_sends())?;
                    goes_on = true;
                } else if !task.is_finished() {
                    task.finish(&acknowledged).map_err(failed)?;
                }
            }
            if !goes_on {
                return Ok(());
            }
        }
    }

    /// Hands over what each task adds to the account of deliveries. Its sends are acknowledged by now, so that no round counts these; the
    /// changelogs' flush waits for them.
    fn write_account(&mut self) -> Result<(), Trouble> {
        let resolved = Arc::clone(&self.resolved);
        let Self {
            slots,
            producer,
            worker,
            ..
        } = self;
        let (Some(topic), Some(id)) = (&worker.declared.audit, resolved.audit) else {
            return Ok(());
        };
        for (&partition, slot) in slots.iter_mut() {
            let Slot::Running(task) = slot else { continue };
            for entry in task.audited(&resolved) {
                let send = Send {
                    topic,
                    partition,
                    key: Some(&entry.key()),
                    value: Some(&entry.encode()),
                    timestamp_ms: None,
                    headers: &[],
                };
                producer.send(partition, id.partition(partition), &send)?;
            }
        }
        Ok(())
    }

    /// Waits until what is sent is acknowledged, and reads ahead meanwhile (decision K18).
    fn flush(&mut self, until: Instant) -> Result<Acknowledged, Trouble> {
        let Self {
            producer,
            consumer,
            ahead,
            ..
        } = self;
        let acknowledged = producer.flush(until, || ahead.read(consumer))?;
        self.follow(&acknowledged)?;
        Ok(acknowledged)
    }

    /// Hands over what each task changed, for its changelogs.
    fn write_changelogs(&mut self) -> Result<(), Trouble> {
        let changelogs = self.resolved.changelogs.clone();
        let Self {
            slots, producer, ..
        } = self;
        for (&partition, slot) in slots.iter() {
            let Slot::Running(task) = slot else { continue };
            for (kind, changes) in StoreKind::BOTH.into_iter().zip(task.changes()) {
                let channel = changelogs.topic(kind).topic.id.partition(partition);
                for (key, value) in &changes.0 {
                    let send = Send {
                        topic: changelogs.name(kind),
                        partition,
                        key: Some(key),
                        value: value.as_ref(),
                        timestamp_ms: None,
                        headers: &[],
                    };
                    producer.send(partition, channel, &send)?;
                }
            }
        }
        Ok(())
    }

    fn positions(&self) -> BTreeMap<Channel, Offset> {
        let running = self.slots.values().filter_map(|slot| match slot {
            Slot::Running(task) => Some(task.positions_to_commit()),
            _ => None,
        });
        running.flatten().collect()
    }
}

pub(super) fn hand_over(
    producer: &mut Producer,
    task: i32,
    sends: impl Iterator<Item = RawSend>,
) -> Result<(), ProduceError> {
    for send in sends {
        let record = Send {
            topic: &send.topic,
            partition: send.channel.partition,
            key: send.key.as_ref(),
            value: send.value.as_ref(),
            timestamp_ms: Some(send.timestamp_ms),
            headers: &send.headers,
        };
        producer.send(task, send.channel, &record)?;
    }
    Ok(())
}
