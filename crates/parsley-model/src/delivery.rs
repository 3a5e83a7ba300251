//! Receipt, position evidence, the decision, the plain scan, checks and hold reports.

use std::collections::{BTreeMap, BTreeSet};

use crate::broken::Broken;
use crate::clock::Clock;
use crate::execution::Execution;
use crate::hold::{Hold, Wait};
use crate::id::{Channel, Sender, Topic, topic_of};
use crate::record::{Delivery, Fetched, Held, Record};
use crate::refused::Refused;

impl Execution {
    /// What is held of a channel, by position.
    pub fn held(&self, on: Channel) -> &[Held] {
        self.state.held.get(&on).map_or(&[], Vec::as_slice)
    }

    /// Whether the channel's topic was found gone.
    pub fn is_gone(&self, on: Channel) -> bool {
        self.gone.contains(&topic_of(on))
    }

    /// `settled(c)` by its definition, without the end that a deletion settles it to.
    pub fn settled(&self, on: Channel) -> Option<i64> {
        match self.held(on).first() {
            Some(head) => Some(head.record.offset - 1),
            None => self.fed.get(&on).copied(),
        }
    }

    /// What is stored for the channel: the settled position where it is a position at all.
    pub fn frontier(&self, on: Channel) -> Option<i64> {
        self.settled(on).filter(|&settled| settled >= 0)
    }

    fn raise_fed(&mut self, on: Channel, position: i64) {
        if position >= 0 {
            let fed = self.fed.entry(on).or_insert(position);
            *fed = (*fed).max(position);
        }
    }

    /// Everything at or below `next - 1` was fed before or will never come.
    pub(crate) fn start_at(&mut self, on: Channel, next: i64) {
        self.raise_fed(on, next - 1);
    }

    /// The checks stand in the order of decision D1.
    pub(crate) fn receive(
        &mut self,
        on: Channel,
        fetched: &Fetched,
        budget: usize,
    ) -> Result<bool, Refused> {
        let offset = fetched.offset;
        if !self.inputs.contains(&on) {
            return Err(Refused::at("vc-unconsumed-channel", on, offset));
        }
        let fed_before = self.last_fed.get(&on).is_some_and(|&last| offset <= last);
        let passed = self.advanced.get(&on).is_some_and(|&next| offset < next);
        if self.is_gone(on) || fed_before || passed {
            return Err(Refused::at("vc-out-of-order-feed", on, offset));
        }
        let tag = tag_of(fetched).ok_or(Refused::at("vc-corrupt-sender", on, offset))?;
        let clock = match values_of(fetched, "vc").first() {
            None => Clock::default(),
            Some(value) => {
                let bytes = value.unwrap_or_default();
                if bytes.len() > budget {
                    return Err(Refused::at("vc-clock-too-wide", on, offset));
                }
                match Clock::decode(bytes) {
                    Some(clock) => clock,
                    None if self.breaks(Broken::CorruptClockAsEmpty) => Clock::default(),
                    None => return Err(Refused::at("vc-corrupt-clock", on, offset)),
                }
            }
        };
        self.last_fed.insert(on, offset);
        self.cursor = None;
        if self.fed.get(&on).is_some_and(|&fed| offset <= fed) && !self.would_redeliver(on, offset)
        {
            return Ok(true);
        }
        self.raise_fed(on, offset);
        self.arrivals += 1;
        let headers = fetched
            .headers
            .iter()
            .filter(|(name, _)| name != "vc" && !name.starts_with("vc-"));
        let record = Record {
            offset,
            timestamp: fetched.timestamp,
            tag,
            clock,
            key: fetched.key.clone(),
            value: fetched.value.clone(),
            headers: headers.cloned().collect(),
        };
        let held = Held {
            record,
            index: None,
            arrival: self.arrivals,
        };
        if offset != 3 || !self.breaks(Broken::LoseOffsetThree) {
            self.hold(on, held);
        }
        Ok(false)
    }

    fn would_redeliver(&self, on: Channel, offset: i64) -> bool {
        let mut queue = self.held(on).iter();
        self.breaks(Broken::RedeliverWhatWasFedAgain)
            && queue.all(|held| held.record.offset != offset)
    }

    /// Puts a record where its position belongs. That is the end, unless a broken protocol takes one a second time: then
    /// the record has the index of the one that it pushes back.
    fn hold(&mut self, on: Channel, mut received: Held) {
        let queue = self.state.held.entry(on).or_default();
        let at = queue.partition_point(|held| held.record.offset < received.record.offset);
        received.index = queue.get(at).and_then(|pushed_back| pushed_back.index);
        for index in queue[at..]
            .iter_mut()
            .filter_map(|held| held.index.as_mut())
        {
            *index += 1;
        }
        if received.index.is_some()
            && let Some((_, tail)) = self.state.indices.get_mut(&on)
        {
            *tail += 1;
        }
        queue.insert(at, received);
    }

    /// Evidence that says nothing new moves nothing (decision D13), but it was reported: a feed below it is G4.
    pub(crate) fn position(&mut self, on: Channel, next: i64) -> Result<(), Refused> {
        if !self.inputs.contains(&on) {
            return Err(Refused::on("vc-unconsumed-channel", on));
        }
        let advanced = self.advanced.entry(on).or_insert(next);
        *advanced = (*advanced).max(next);
        let nothing_new = next <= 0 || self.fed.get(&on).is_some_and(|&fed| next - 1 <= fed);
        if !self.is_gone(on) && !nothing_new && !self.breaks(Broken::IgnorePositions) {
            self.raise_fed(on, next - 1);
        }
        self.cursor = None;
        Ok(())
    }

    /// Whether claims on a channel are none for a record received on `on`, or met whatever they claim.
    fn passes_over(&self, on: Channel, claimed_on: Channel) -> bool {
        (claimed_on == on && !self.breaks(Broken::ClaimsOnOwnChannelBlock))
            || (!self.inputs.contains(&claimed_on) && !self.breaks(Broken::UnreceivedChannelsBlock))
            || (self.is_gone(claimed_on) && !self.breaks(Broken::DeletedChannelsBlock))
    }

    fn is_settled(&self, on: Channel, offset: i64) -> bool {
        let settled = match self.broken {
            Some(Broken::FedForSettled) => self.fed.get(&on).copied(),
            Some(Broken::UndefinedSettledAsEverything) => {
                Some(self.settled(on).unwrap_or(i64::MAX))
            }
            Some(Broken::OffByOneSettled) => self.settled(on).map(|at| at.saturating_add(1)),
            _ => self.settled(on),
        };
        settled.is_some_and(|settled| offset <= settled)
    }

    /// The highest send of the sender that was delivered on the channel.
    fn delivered_of(&self, on: Channel, sender: Sender) -> Option<i64> {
        let marked = self.state.marks.get(&(on, sender));
        let delivered = marked.map(|&(sequence, _)| sequence);
        if !self.breaks(Broken::ReceivedForDelivered) {
            return delivered;
        }
        let tags = self.held(on).iter().filter_map(|held| held.record.tag);
        let received = tags.filter(|&(from, _)| from == sender);
        received.map(|(_, sequence)| sequence).max().max(delivered)
    }

    /// Every claim of a record received on `on` that is not met, offsets first, in clock order.
    fn unmet(&self, on: Channel, held: &Held) -> Vec<Wait> {
        let mut waits = Vec::new();
        let heeds_all = !self.breaks(Broken::Eager);
        let heeds_offsets = heeds_all && !self.breaks(Broken::IgnoreOffsetClaims);
        let heeds_sequences = heeds_all && !self.breaks(Broken::IgnoreSequenceClaims);
        let offsets = held.record.clock.offsets.iter().filter(|_| heeds_offsets);
        for (&claimed_on, &offset) in offsets {
            if self.passes_over(on, claimed_on) || self.is_settled(claimed_on, offset) {
                continue;
            }
            let settled = self.settled(claimed_on);
            let fed = self.fed.get(&claimed_on).is_some_and(|&fed| offset <= fed);
            let code = if fed {
                "vc-hold-held-upstream"
            } else {
                "vc-hold-not-fetched"
            };
            waits.push(Wait::Offset {
                on: claimed_on,
                offset,
                settled,
                code,
            });
        }
        let sequences = held.record.clock.sequences.iter();
        for (&(claimed_on, sender), &sequence) in sequences.filter(|_| heeds_sequences) {
            if self.passes_over(on, claimed_on) {
                continue;
            }
            let delivered = self.delivered_of(claimed_on, sender);
            if delivered.is_some_and(|delivered| sequence <= delivered) {
                continue;
            }
            if self.evidence_meets(claimed_on, sender, sequence, held.arrival) {
                continue;
            }
            let code = if delivered.is_some() {
                "vc-hold-sender-behind"
            } else {
                "vc-hold-sender-unseen"
            };
            waits.push(Wait::Sequence {
                on: claimed_on,
                sender,
                sequence,
                delivered,
                code,
            });
        }
        waits
    }

    /// Does any watermark that was asked for after the record came meet the sequence claim?
    fn evidence_meets(&self, on: Channel, sender: Sender, sequence: i64, arrival: u64) -> bool {
        let held_here = self.held(on).iter().any(|held| {
            held.record
                .tag
                .is_some_and(|(from, number)| from == sender && number <= sequence)
        });
        if held_here && !self.breaks(Broken::EvidenceDespiteHeld) {
            return false;
        }
        let reached = match self.broken {
            Some(Broken::SettledForFedInEvidence) => self.settled(on),
            Some(Broken::EvidenceOneEarly) => self.fed.get(&on).map(|&fed| fed.saturating_add(1)),
            _ => self.fed.get(&on).copied(),
        };
        let Some(reached) = reached else {
            return false;
        };
        let evidence = self.evidence.get(&on).map_or(&[][..], Vec::as_slice);
        evidence
            .iter()
            .any(|&(arrivals, watermark)| arrival <= arrivals && reached >= watermark - 1)
    }

    /// Which record of a channel's buffer can go: its head or none.
    fn deliverable(&self, on: Channel) -> Option<usize> {
        let looked_at = if self.breaks(Broken::BreakFifo) { 2 } else { 1 };
        let mut candidates = self.held(on).iter().take(looked_at);
        candidates.position(|held| self.unmet(on, held).is_empty())
    }

    /// The plain scan, one delivery at a time. The cursor is the channel of the delivery before, if this pass has had one.
    pub(crate) fn deliver_next(&mut self) -> Option<Delivery> {
        loop {
            let standing_at = self.cursor;
            let rest = self
                .inputs
                .iter()
                .copied()
                .filter(|&on| standing_at.is_none_or(|at| on >= at));
            let deliverable = rest.filter_map(|on| Some((on, self.deliverable(on)?)));
            if let Some((on, at)) = deliverable.into_iter().next() {
                self.cursor = Some(on);
                return Some(self.deliver(on, at));
            }
            if standing_at.is_none() {
                self.give_indices();
                return None;
            }
            self.cursor = None;
        }
    }

    fn deliver(&mut self, on: Channel, at: usize) -> Delivery {
        let queue = self
            .state
            .held
            .get_mut(&on)
            .expect("the channel holds a record");
        let taken = queue.remove(at);
        let was_held = taken.index.is_some();
        if was_held {
            for overtaken in &mut queue[..at] {
                overtaken.index = overtaken.index.map(|index| index + 1);
            }
            self.state
                .indices
                .get_mut(&on)
                .expect("an index was given here")
                .0 += 1;
        }
        let record = taken.record;
        let delivered = self.delivered.entry(on).or_insert(record.offset);
        *delivered = (*delivered).max(record.offset);
        self.fold(on, &record.clock);
        if let Some((sender, sequence)) = record.tag {
            let mark = self
                .state
                .marks
                .entry((on, sender))
                .or_insert((sequence, record.offset));
            if sequence > mark.0 {
                *mark = (sequence, record.offset);
            }
        }
        Delivery {
            on,
            record,
            was_held,
        }
    }

    /// The clock of a delivered record enters the advertised term.
    fn fold(&mut self, on: Channel, clock: &Clock) {
        let mut folded = clock.clone();
        if self.breaks(Broken::NoFoldAtDelivery) {
            return;
        }
        if self.breaks(Broken::FoldReceivedChannelsOnly) {
            let inputs = &self.inputs;
            folded.offsets.retain(|on, _| inputs.contains(on));
            folded.sequences.retain(|(on, _), _| inputs.contains(on));
        }
        self.state.advertised.entry(on).or_default().merge(&folded);
    }

    /// Decision D11: what is still held when a drain or a step ends takes the next indices of its channel.
    pub(crate) fn give_indices(&mut self) {
        for (&on, queue) in &mut self.state.held {
            for held in queue.iter_mut().filter(|held| held.index.is_none()) {
                let (_, tail) = self.state.indices.entry(on).or_insert((0, 0));
                held.index = Some(*tail);
                *tail += 1;
            }
        }
    }

    /// Log starts first (G10), deletions second (G9); decision D6 names the coordinates.
    pub(crate) fn check(
        &mut self,
        log_starts: &BTreeMap<Channel, i64>,
        gone: &BTreeSet<Topic>,
    ) -> Result<(), Refused> {
        let heeds_lost = !self.breaks(Broken::IgnoreLostPositions);
        for &on in self.inputs.iter().filter(|_| heeds_lost) {
            let Some(&log_start) = log_starts.get(&on) else {
                continue;
            };
            if self.is_gone(on) || gone.contains(&topic_of(on)) {
                continue;
            }
            if let Some(head) = self.held(on).first()
                && head.record.offset < log_start
            {
                return Err(Refused::at("vc-positions-lost", on, head.record.offset));
            }
            let next = match self.fed.get(&on) {
                Some(&fed) => Some(fed.saturating_add(1)),
                None => self.resume.get(&on).copied(),
            };
            if let Some(next) = next
                && next < log_start
            {
                return Err(Refused::at("vc-positions-lost", on, next));
            }
        }
        for &on in &self.inputs {
            if gone.contains(&topic_of(on))
                && !self.breaks(Broken::IgnoreDeletedHeld)
                && let Some(head) = self.held(on).first()
            {
                return Err(Refused::at("vc-deleted-input-held", on, head.record.offset));
            }
        }
        self.gone.extend(gone);
        self.cursor = None;
        Ok(())
    }

    pub(crate) fn sweep(
        &mut self,
        drop_below: &BTreeMap<Channel, i64>,
        drop_gone: &BTreeSet<Topic>,
    ) {
        let beyond = match self.broken {
            Some(Broken::TruncateAboveBound) => 2,
            _ => 0,
        };
        self.swept.extend(drop_gone);
        self.cursor = None;
        let state = &mut self.state;
        for clock in state.advertised.values_mut().chain([&mut state.carried]) {
            clock.offsets.retain(|&on, &mut offset| {
                let bound = drop_below.get(&on);
                let below = bound.is_some_and(|&bound| offset < bound.saturating_add(beyond));
                !below && !drop_gone.contains(&topic_of(on))
            });
            clock
                .sequences
                .retain(|&(on, _), _| !drop_gone.contains(&topic_of(on)));
        }
    }

    pub(crate) fn holds(&self) -> Vec<Hold> {
        let mut holds = Vec::new();
        for &on in &self.inputs {
            if let Some(head) = self.held(on).first() {
                holds.push(Hold {
                    on,
                    offset: head.record.offset,
                    behind: self.held(on).len() - 1,
                    waits: self.unmet(on, head),
                });
            }
        }
        holds
    }
}

fn values_of<'a>(fetched: &'a Fetched, name: &str) -> Vec<Option<&'a [u8]>> {
    let with_name = fetched.headers.iter().filter(|(header, _)| header == name);
    with_name.map(|(_, value)| value.as_deref()).collect()
}

/// The sender tag, `None` for whatever G2 names.
fn tag_of(fetched: &Fetched) -> Option<Option<(Sender, i64)>> {
    if ["vc", "vc-sender", "vc-seq"]
        .iter()
        .any(|name| values_of(fetched, name).len() > 1)
    {
        return None;
    }
    match (
        values_of(fetched, "vc-sender").first(),
        values_of(fetched, "vc-seq").first(),
    ) {
        (None, None) => Some(None),
        (Some(Some(sender)), Some(Some(sequence))) => {
            let whole = u128::from_be_bytes((*sender).try_into().ok()?);
            let sequence = i64::from_be_bytes((*sequence).try_into().ok()?);
            (sequence >= 0).then_some(Some((((whole >> 64) as i64, whole as i64), sequence)))
        }
        _ => None,
    }
}
