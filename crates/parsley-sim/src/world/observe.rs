//! What the host reports, told to the oracle, checked, counted and recorded.

use parsley_core::wire::{self, ProtocolHeaders};
use parsley_core::{Channel, Clock, Offset, Record, SequenceClaim, Wait};
use parsley_oracle::Actor;
use parsley_stage::partition::partition_of;

use super::{Content, Life, Rule, Violation, World};
use crate::host::{ConformanceHost, Event, TaskNo};
use crate::payload;
use crate::trace::{At, Kind};

impl<H: ConformanceHost> World<H> {
    /// Takes up what has happened at the host since the last time.
    pub(super) fn observe(&mut self) -> Result<(), Violation> {
        let mut events = std::mem::take(&mut self.events);
        self.host.take_events(&mut events);
        let mut outcome = Ok(());
        for event in events.drain(..) {
            outcome = self.observe_one(event);
            if outcome.is_err() {
                break;
            }
        }
        events.clear();
        self.events = events;
        outcome
    }

    fn observe_one(&mut self, event: Event) -> Result<(), Violation> {
        match event {
            Event::Received(task, channel, offset) => {
                let state = &mut self.tasks[task.0];
                state.fed.receive(channel, offset);
                state.in_step = true;
                let actor = state.actor;
                self.tell(Some(actor), |world| {
                    let at = world.at(channel, offset)?;
                    Some(Kind::Received { at })
                });
            }
            Event::Dropped(task, channel, offset) => {
                self.counts.duplicates_dropped += 1;
                let state = &mut self.tasks[task.0];
                state.fed.receive(channel, offset);
                let actor = state.actor;
                self.tell(Some(actor), |world| {
                    let at = world.at(channel, offset)?;
                    Some(Kind::Dropped { at })
                });
            }
            Event::Advanced(task, channel, next) => {
                self.counts.position_advances += 1;
                let state = &mut self.tasks[task.0];
                state.fed.advance(channel, next);
                state.in_step = true;
                let actor = state.actor;
                self.tell(Some(actor), |world| {
                    let channel = world.number_of(channel)?;
                    Some(Kind::Advanced { channel, next })
                });
            }
            Event::Delivered {
                task,
                channel,
                offset,
                was_held,
            } => self.observe_delivery(task, channel, offset, was_held)?,
            Event::Ticked(task, timestamp_ms) => self.observe_tick(task, timestamp_ms)?,
            Event::Appended { task, record } => self.observe_append(task, record)?,
            Event::Committed(task) => {
                let actor = self.tasks[task.0].actor;
                self.oracle.commit(actor);
                let state = &mut self.tasks[task.0];
                state.staged.clear();
                state.first_sent_to = None;
                state.open_sends.clear();
                for (committed, next) in state.sequences.values_mut() {
                    *committed = *next;
                }
                for (committed, count) in state.delivered_by_key.values_mut() {
                    *committed = *count;
                }
                state.ticks_delivered.0 = state.ticks_delivered.1;
                state.fed.commit();
                state.step_ticks = 0;
                state.step_deliveries = 0;
                state.in_step = false;
                self.tell(Some(actor), |_| Some(Kind::Committed));
                self.judge_positions(task)?;
            }
            Event::Aborted(task) => {
                let actor = self.tasks[task.0].actor;
                self.oracle.abort(actor);
                let state = &mut self.tasks[task.0];
                state.staged.clear();
                state.first_sent_to = None;
                state.open_sends.clear();
                for (committed, next) in state.sequences.values_mut() {
                    *next = *committed;
                }
                for (committed, count) in state.delivered_by_key.values_mut() {
                    *count = *committed;
                }
                let (ticks, deliveries) = &mut state.ticks_delivered;
                self.counts.tick_deliveries_aborted += *deliveries - *ticks;
                *deliveries = *ticks;
                state.fed.abort();
                self.counts.ticks_aborted += std::mem::take(&mut state.step_ticks);
                state.step_deliveries = 0;
                // Between two steps there is nothing to abort.
                if std::mem::take(&mut state.in_step) {
                    self.tell(Some(actor), |_| Some(Kind::Aborted));
                }
            }
            Event::Truncated(task, channels) => {
                self.counts.truncated += channels;
                let actor = self.tasks[task.0].actor;
                self.note(Some(actor), || {
                    format!("dropped {channels} channels from its stamps")
                });
            }
            Event::Evidence(task) => {
                self.counts.evidence += 1;
                let actor = self.tasks[task.0].actor;
                self.note(Some(actor), || "was told high watermarks".to_owned());
            }
        }
        Ok(())
    }

    fn observe_delivery(
        &mut self,
        task: TaskNo,
        channel: Channel,
        offset: Offset,
        was_held: bool,
    ) -> Result<(), Violation> {
        let actor = self.tasks[task.0].actor;
        self.counts.deliveries += 1;
        self.counts.holds += u64::from(was_held);
        self.tell(Some(actor), |world| {
            let at = world.at(channel, offset)?;
            Some(Kind::Delivered { at, was_held })
        });
        let number = self.number_of(channel).ok_or_else(|| {
            self.violation(Rule::HostFailed, format!("unknown channel {channel}"))
        })?;
        let delivered = self
            .oracle
            .deliver(actor, self.channels[number].oracle, offset);
        let cause = delivered.map_err(|found| self.judged(&found))?;
        let content = usize::try_from(offset)
            .ok()
            .and_then(|offset| self.channels[number].content.get(offset).copied().flatten());
        let Some(content) = content else {
            return Err(self.violation(Rule::HostFailed, "a record without content".to_owned()));
        };
        let is_tick = self.is_tick_topic(task.0, self.channels[number].topic);
        let state = &mut self.tasks[task.0];
        if is_tick {
            state.ticks_delivered.1 += 1;
        } else {
            state.delivered_by_key.entry(content.key).or_default().1 += 1;
        }
        state.in_step = true;
        state.step_deliveries += 1;
        let (deliveries, stage) = (state.step_deliveries, &self.plan.stages[state.at.stage]);
        if deliveries > stage.step_deliveries_max {
            let text = format!(
                "delivery {deliveries} of a step, {} are allowed",
                stage.step_deliveries_max
            );
            return Err(self.task_violation(task.0, Rule::StepTooLong, text));
        }
        let stage = self.tasks[task.0].at.stage;
        let declaration = std::sync::Arc::clone(&self.stages[stage].declaration);
        let topic = self.channels[number].topic;
        for emission in payload::emissions(&declaration, stage, topic, content.key, content.payload)
        {
            let Some(to) = self.channel_of(emission.to, emission.key) else {
                continue;
            };
            let to = self.channels[to].oracle;
            let emitted = self
                .oracle
                .emit_for(actor, Some(cause), to, emission.key)
                .map_err(|misuse| self.violation(Rule::HostFailed, misuse.to_string()))?;
            self.tasks[task.0]
                .staged
                .push((emission.payload.label, emitted));
        }
        Ok(())
    }

    /// The channel that a key goes to on the topic's newest incarnation.
    pub(super) fn channel_of(&self, topic: &str, key: Option<u64>) -> Option<usize> {
        let topic = self.topics.get(topic)?;
        let key = key.map(payload::key_bytes);
        let partition = partition_of(key.as_deref(), topic.partitions);
        topic
            .channels
            .get(usize::try_from(partition).ok()?)
            .copied()
    }

    fn observe_append(&mut self, task: TaskNo, record: Record) -> Result<(), Violation> {
        let actor = self.tasks[task.0].actor;
        let (channel, offset) = (record.channel, record.offset);
        self.counts.appends += 1;
        self.tasks[task.0].in_step = true;
        let clock = self.check_stamp(task, &record)?;
        self.tell(Some(actor), |world| {
            Some(Kind::Sent {
                at: world.at(channel, offset)?,
                clock: world.claims_text(&clock),
            })
        });
        let payload = self.payload_sent(task.0, &record);
        let state = &mut self.tasks[task.0];
        let staged = payload.and_then(|payload| {
            let index = state
                .staged
                .iter()
                .position(|&(label, _)| label == payload.label)?;
            Some((payload, state.staged.swap_remove(index).1))
        });
        if state.first_sent_to.is_some_and(|first| first != channel) {
            self.counts.later_rounds += 1;
        }
        state.first_sent_to.get_or_insert(channel);
        let Some((payload, emission)) = staged else {
            return Err(self.task_violation(
                task.0,
                Rule::Misplaced,
                format!("a send to {channel} at {offset} that no delivery emitted"),
            ));
        };
        let number = self.number_of(channel);
        let meant = self.oracle.channel(emission);
        if number.map(|number| self.channels[number].oracle) != Some(meant) {
            let meant = self.oracle.channel_name(meant).to_owned();
            return Err(self.task_violation(
                task.0,
                Rule::Misplaced,
                format!("a send for {meant} was appended to {channel} at {offset}"),
            ));
        }
        self.oracle
            .appended(emission, offset)
            .map_err(|misuse| self.violation(Rule::HostFailed, misuse.to_string()))?;
        let key = payload::key_of(record.key.as_ref());
        if let Some(number) = number {
            self.put_content(number, offset, Content { key, payload }, clock);
        }
        Ok(())
    }

    pub(super) fn put_content(
        &mut self,
        number: usize,
        offset: Offset,
        content: Content,
        clock: Clock,
    ) {
        if !clock.is_empty() {
            self.channels[number].clocks.insert(offset, clock);
        }
        let topic = self.channels[number].topic;
        let several = self
            .topics
            .get(topic)
            .is_some_and(|topic| topic.partitions > 1);
        let contents = &mut self.channels[number].content;
        self.counts.partitions_used += u64::from(several && contents.is_empty());
        let Ok(index) = usize::try_from(offset) else {
            return;
        };
        if contents.len() <= index {
            contents.resize(index + 1, None);
        }
        contents[index] = Some(content);
    }

    /// Every claim of an offset names something appended before, and sequences have neither gaps nor repetitions.
    fn check_stamp(&mut self, task: TaskNo, record: &Record) -> Result<Clock, Violation> {
        let corrupt =
            |world: &Self, text: String| world.task_violation(task.0, Rule::CorruptStamp, text);
        let headers = ProtocolHeaders::read(&record.headers)
            .map_err(|error| corrupt(self, error.to_string()))?;
        let clock = match &headers.clock {
            None => Clock::new(),
            Some(bytes) => wire::decode(bytes)
                .map_err(|error| corrupt(self, error.to_string()))?
                .into_clock(),
        };
        for claim in clock.offsets() {
            // Of a deleted topic nobody knows the end any more. By now the record itself is there, and in a step that is one moment others behind it.
            let end = match claim.channel == record.channel {
                true => Some(record.offset),
                false => self.host.ends(claim.channel).map(|ends| ends.end),
            };
            if end.is_some_and(|end| claim.offset >= end) {
                let name = self.channel_name(claim.channel);
                let text = format!("claims {name} at {}", claim.offset);
                return Err(self.task_violation(task.0, Rule::ClaimsUnappended, text));
            }
        }
        let width = clock.width() as u64;
        self.counts.widest_stamp = self.counts.widest_stamp.max(width);
        self.counts.stamps_by_sequence += u64::from(!clock.sequences().is_empty());
        let Some((sender, sequence)) = headers.sender else {
            return Err(corrupt(self, "a send without a sender".to_owned()));
        };
        for claim in clock
            .sequences()
            .iter()
            .filter(|claim| claim.sender == sender)
        {
            self.check_send_order(task, record.channel, claim)?;
        }
        let (_, next) = self.tasks[task.0]
            .sequences
            .entry(record.channel)
            .or_insert((0, 0));
        let expected = *next;
        *next = sequence.saturating_add(1);
        if sequence != expected {
            let text = format!(
                "send sequence {sequence} on {}, where {expected} is due",
                record.channel
            );
            return Err(self.task_violation(task.0, Rule::SequenceGap, text));
        }
        self.tasks[task.0]
            .open_sends
            .push((record.channel, sequence, record.offset));
        Ok(clock)
    }

    /// What a task claims of its own sends to another partition was acknowledged before it handed this one over.
    fn check_send_order(
        &self,
        task: TaskNo,
        to: Channel,
        claim: &SequenceClaim,
    ) -> Result<(), Violation> {
        let state = &self.tasks[task.0];
        let next = state
            .sequences
            .get(&claim.channel)
            .map_or(0, |&(_, next)| next);
        let mut open = state.open_sends.iter();
        let is_acknowledged = open
            .find(|&&(on, sequence, _)| on == claim.channel && sequence == claim.sequence)
            .is_none_or(|&(on, _, offset)| self.host.is_acknowledged(on, offset));
        if claim.channel == to || (claim.sequence < next && is_acknowledged) {
            return Ok(());
        }
        let (name, to) = (self.channel_name(claim.channel), self.channel_name(to));
        let text = format!(
            "a send to {to} was appended before its own send {} to {name}, which it claims, was acknowledged",
            claim.sequence
        );
        Err(self.task_violation(task.0, Rule::SendOrder, text))
    }

    /// A clock as a trace shows it.
    pub(super) fn claims_text(&self, clock: &Clock) -> String {
        let name = |channel: Channel| self.channel_name(channel);
        let offsets = clock.offsets().iter();
        let offsets = offsets.map(|claim| format!("{}<={}", name(claim.channel), claim.offset));
        let sequences = clock.sequences().iter().map(|claim| {
            let sender = self.sender_name(claim.sender);
            format!("{}/{sender}<={}", name(claim.channel), claim.sequence)
        });
        offsets.chain(sequences).collect::<Vec<_>>().join(", ")
    }

    /// What a head waits for, as a trace shows it.
    pub(super) fn wait_text(&self, wait: &Wait) -> String {
        self.claims_text(&match wait {
            Wait::Offset { claim, .. } => Clock::from_claims([*claim], []),
            Wait::Sequence { claim, .. } => Clock::from_claims([], [*claim]),
        })
    }

    fn sender_name(&self, sender: parsley_core::SenderId) -> String {
        let named = self.tasks.iter().position(|task| {
            let stage = self.plan.stages[task.at.stage].name;
            parsley_core::SenderId::of_task(crate::host::APPLICATION, stage, task.at.partition)
                == sender
        });
        named.map_or_else(|| sender.to_string(), |task| self.task_name(task))
    }

    pub(super) fn task_violation(&self, task: usize, rule: Rule, text: String) -> Violation {
        Violation {
            actor: Some(self.tasks[task].actor.index()),
            ..self.violation(rule, format!("{}: {text}", self.task_name(task)))
        }
    }

    /// The oracle's violation in the world's terms.
    pub(super) fn judged(&self, found: &parsley_oracle::Violation) -> Violation {
        let place = |emission| {
            let (channel, offset) = self.oracle.coordinate(emission)?;
            Some(At {
                channel: channel.index(),
                offset,
            })
        };
        let record = found.offset.map(|offset| At {
            channel: found.channel.index(),
            offset,
        });
        let explained = self.oracle.explain(found);
        let rule = format!("{}: ", found.rule);
        Violation {
            rule: Rule::Oracle(found.rule),
            text: explained.strip_prefix(&rule).unwrap_or(&explained).into(),
            step: self.now,
            actor: Some(Actor::index(found.actor)),
            record,
            other: found.other.and_then(place),
            path: found.path.iter().copied().filter_map(place).collect(),
        }
    }

    /// After a step: what is held now.
    pub(super) fn observe_holds(&mut self, task: usize) {
        if self.tasks[task].life != Life::Running {
            return;
        }
        if self.host.held(TaskNo(task)) > 0 {
            self.counts.steps_holding += 1;
        }
        if self.trace.is_none() {
            return;
        }
        let actor = self.tasks[task].actor;
        let mut told = std::collections::BTreeMap::new();
        for hold in self.host.holds(TaskNo(task)) {
            let Some(wait) = hold.waits.first() else {
                continue;
            };
            let blocked_by = self.wait_text(wait);
            let entry = (hold.offset, blocked_by.clone());
            if self.tasks[task].told_holds.get(&hold.channel) != Some(&entry) {
                self.tell(Some(actor), |world| {
                    let at = world.at(hold.channel, hold.offset)?;
                    Some(Kind::Held { at, blocked_by })
                });
            }
            told.insert(hold.channel, entry);
        }
        self.tasks[task].told_holds = told;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parsley_core::{OffsetClaim, SenderId};

    use super::*;
    use crate::plan::{Declaration, Emit, Plan, Rules, StagePlan, topics};
    use crate::run::Request;
    use crate::{Sabotage, TaskHost};

    /// The record stands at offset 0 by the time its stamp is looked at, so the end of its channel alone would let the claim pass.
    #[test]
    fn a_record_does_not_claim_itself() {
        let relay = Declaration::default().on("a", &[Emit::to("b")]);
        let plan = Arc::new(Plan {
            topics: topics(&["a", "b"]),
            stages: vec![StagePlan::new("relay", relay)],
            edges: Vec::new(),
            script: Vec::new(),
            rules: Rules::default(),
        });
        let setting = Request::setting(0, &plan);
        let host = TaskHost::sabotaged(setting, Sabotage::None);
        let mut world = World::new(plan, setting, host, None).expect("the plan can be deployed");
        let channel = world.channels[world.topics["b"].channels[0]].channel;
        let clock = Clock::from_claims([OffsetClaim { channel, offset: 0 }], []);
        let sender = SenderId::of_task(crate::host::APPLICATION, "relay", 0);
        let mut record = Record {
            channel,
            offset: 0,
            timestamp_ms: 0,
            key: None,
            value: None,
            headers: wire::stamp_headers(wire::encode(&clock).into(), sender, 0).to_vec(),
        };
        assert_eq!(world.host.append(record.clone(), None), Some(0));
        let found = world.check_stamp(TaskNo(0), &record).err();
        let rule = found.map(|violation| violation.rule);
        assert_eq!(rule, Some(Rule::ClaimsUnappended));
        record.offset = 1;
        assert_eq!(world.check_stamp(TaskNo(0), &record), Ok(clock));
    }
}
