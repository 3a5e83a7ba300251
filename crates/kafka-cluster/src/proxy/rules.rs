//! Rules: which requests, and what becomes of them.

use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use super::frame::{ApiKey, Head};
use super::shared::{Shared, State};

/// Which requests a rule is for. Every condition that is set has to hold.
#[derive(Clone, Debug)]
pub struct Requests {
    api: ApiKey,
    broker: Option<u16>,
    client_id: Option<String>,
    transactional_id: Option<String>,
    topic: Option<String>,
    partition: Option<i32>,
    count: Option<u64>,
}

impl Requests {
    /// All requests of a kind.
    #[must_use]
    pub fn of(api: ApiKey) -> Self {
        Self {
            api,
            broker: None,
            client_id: None,
            transactional_id: None,
            topic: None,
            partition: None,
            count: None,
        }
    }

    /// Only those to broker `number`, from 1 on.
    #[must_use]
    pub fn to_broker(mut self, number: u16) -> Self {
        self.broker = Some(number);
        self
    }

    /// Only those of clients with this `client.id`.
    #[must_use]
    pub fn of_client(mut self, client_id: &str) -> Self {
        self.client_id = Some(client_id.to_owned());
        self
    }

    /// Only those in transactions whose `transactional.id` begins so. Known of Produce, InitProducerId, AddPartitionsToTxn,
    /// AddOffsetsToTxn, EndTxn and TxnOffsetCommit.
    #[must_use]
    pub fn of_transactions(mut self, id_begins_with: &str) -> Self {
        self.transactional_id = Some(id_begins_with.to_owned());
        self
    }

    /// Only Metadata requests that ask for this topic by its name, and Produce requests whose first partition is one of it. librdkafka's producers send a request for each partition; clients
    /// that send a topic's UUID in place of its name (from version 13 of the request on) are not matched.
    #[must_use]
    pub fn to_topic(mut self, topic: &str) -> Self {
        self.topic = Some(topic.to_owned());
        self
    }

    /// The same, and of that topic's partition alone.
    #[must_use]
    pub fn to_partition(self, topic: &str, partition: i32) -> Self {
        let mut requests = self.to_topic(topic);
        requests.partition = Some(partition);
        requests
    }

    /// Only the next so many of them.
    #[must_use]
    pub fn next(mut self, count: u64) -> Self {
        self.count = Some(count);
        self
    }

    fn has(&self, broker: u16, head: &Head) -> bool {
        let is_wished =
            |wished: &Option<String>, found: &Option<String>| wished.is_none() || wished == found;
        let is_of_transaction = match (&self.transactional_id, &head.transactional_id) {
            (None, _) => true,
            (Some(begin), Some(id)) => id.starts_with(&**begin),
            (Some(_), None) => false,
        };
        let is_to_partition = match (&self.topic, &head.partition) {
            (None, _) => true,
            (Some(wished), _) if head.asked_for.contains(wished) => true,
            (Some(wished), Some((topic, partition))) => {
                wished == topic && self.partition.is_none_or(|wished| wished == *partition)
            }
            (Some(_), None) => false,
        };
        self.api == head.api
            && self.broker.is_none_or(|wished| wished == broker)
            && is_wished(&self.client_id, &head.client_id)
            && is_of_transaction
            && is_to_partition
    }
}

/// What becomes of a request that a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// It passes, and is counted. Other rules apply as well.
    Watch,
    /// It stays here, and whatever its connection brings behind it, until the rule is released.
    HoldRequest,
    /// It goes on later, and whatever its connection brings behind it.
    DelayRequest(Duration),
    /// It never arrives: the connection is cut.
    DropRequest,
    /// The broker gets it; its answer stays here, and those behind it, until the rule is released.
    HoldResponse,
    /// The broker gets it; its answer goes on later, and those behind it.
    DelayResponse(Duration),
    /// The broker gets it; once it has answered, the connection is cut in place of the answer.
    DropResponse,
    /// Of Metadata requests, with [`Requests::to_topic`]: the broker answers for that topic as one that does not know it, or not yet.
    HideTopic,
}

/// A rule's number.
pub(super) type RuleId = u64;

/// A rule as the proxy keeps it.
#[derive(Debug)]
pub(super) struct Entry {
    id: RuleId,
    requests: Requests,
    action: Action,
    is_released: bool,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    arrived: u64,
    answered: u64,
    held: u64,
}

/// What is to become of a request, and of its answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Verdict {
    /// The rule that acts on it.
    pub(super) acting: Option<(RuleId, Action)>,
    /// The topic that the broker is not to know.
    pub(super) hidden: Option<String>,
    /// All rules that count it.
    pub(super) counting: Vec<RuleId>,
}

/// The rules in force, oldest first.
#[derive(Debug, Default)]
pub(super) struct Rules {
    entries: Vec<Entry>,
    next_id: RuleId,
}

impl Rules {
    fn add(&mut self, requests: Requests, action: Action) -> RuleId {
        let id = self.next_id;
        self.next_id += 1;
        self.entries.push(Entry {
            id,
            requests,
            action,
            is_released: false,
            counts: Counts::default(),
        });
        id
    }

    fn entry(&mut self, id: RuleId) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.id == id)
    }

    /// Counts a request that has arrived. The oldest of the rules that act on it does; those that watch it all do.
    pub(super) fn arrived(&mut self, broker: u16, head: &Head) -> Verdict {
        let mut verdict = Verdict::default();
        for entry in &mut self.entries {
            let is_used_up = |count| entry.counts.arrived >= count;
            let acts = entry.action != Action::Watch;
            if entry.is_released
                || entry.requests.count.is_some_and(is_used_up)
                || (acts && verdict.acting.is_some())
                || !entry.requests.has(broker, head)
            {
                continue;
            }
            entry.counts.arrived += 1;
            verdict.counting.push(entry.id);
            if acts {
                verdict.acting = Some((entry.id, entry.action));
                if entry.action == Action::HideTopic {
                    verdict.hidden.clone_from(&entry.requests.topic);
                }
            }
        }
        verdict
    }

    pub(super) fn answered(&mut self, counting: &[RuleId]) {
        for id in counting {
            if let Some(entry) = self.entry(*id) {
                entry.counts.answered += 1;
            }
        }
    }

    /// Counts one more, or one less, that the rule holds.
    pub(super) fn holds(&mut self, id: RuleId, is_held: bool) {
        if let Some(Counts { held, .. }) = self.entry(id).map(|entry| &mut entry.counts) {
            *held = match is_held {
                true => *held + 1,
                false => held.saturating_sub(1),
            };
        }
    }

    /// Whether what the rule holds is to go on.
    pub(super) fn is_released(&self, id: RuleId) -> bool {
        let entry = self.entries.iter().find(|entry| entry.id == id);
        entry.is_none_or(|entry| entry.is_released)
    }
}

/// What was waited for did not happen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// Not in time.
    #[error("{found} of {expected} requests {what} within {waited:?}")]
    Late {
        /// What requests were waited for to do.
        what: &'static str,
        /// How many were to.
        expected: u64,
        /// How many have.
        found: u64,
        /// How long it was waited.
        waited: Duration,
    },
    /// The proxy has ended.
    #[error("the proxy has ended")]
    Ended,
}

/// A rule in force. It ends when it is released or dropped; what it holds goes on then.
#[derive(Debug)]
#[must_use = "a rule ends when this is dropped"]
pub struct Rule {
    shared: Arc<Shared>,
    id: RuleId,
}

impl Rule {
    pub(super) fn begin(shared: &Arc<Shared>, requests: Requests, action: Action) -> Self {
        let id = shared.state().rules.add(requests, action);
        Self {
            shared: Arc::clone(shared),
            id,
        }
    }

    fn counts_in(&self, state: &mut State) -> Counts {
        let entry = state.rules.entry(self.id);
        entry.map(|entry| entry.counts).unwrap_or_default()
    }

    fn counts(&self) -> Counts {
        self.counts_in(&mut self.shared.state())
    }

    /// How many requests it was for so far.
    #[must_use]
    pub fn arrived(&self) -> u64 {
        self.counts().arrived
    }

    /// How many of those the broker has answered.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.counts().answered
    }

    /// How many requests or answers it holds back or delays now.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.counts().held
    }

    /// Waits until it was for so many requests, counted from its beginning.
    ///
    /// # Errors
    ///
    /// [`WaitError`], when that does not come within `bound`, or the proxy ends.
    pub fn wait_for_arrivals(&self, count: u64, bound: Duration) -> Result<(), WaitError> {
        self.wait("arrived", count, bound, |counts| counts.arrived)
    }

    /// Waits until the broker has answered so many of them, whether or not the answers went on.
    ///
    /// # Errors
    ///
    /// [`WaitError`], when that does not come within `bound`, or the proxy ends.
    pub fn wait_for_answers(&self, count: u64, bound: Duration) -> Result<(), WaitError> {
        self.wait("were answered", count, bound, |counts| counts.answered)
    }

    fn wait(
        &self,
        what: &'static str,
        expected: u64,
        bound: Duration,
        count: impl Fn(Counts) -> u64,
    ) -> Result<(), WaitError> {
        let until = Instant::now() + bound;
        let mut state: MutexGuard<'_, State> = self.shared.state();
        loop {
            let found = count(self.counts_in(&mut state));
            if found >= expected {
                return Ok(());
            }
            if state.has_ended {
                return Err(WaitError::Ended);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(WaitError::Late {
                    what,
                    expected,
                    found,
                    waited: bound,
                });
            }
            state = self.shared.wait(state, Some(left));
        }
    }

    /// Ends it: what it holds goes on, and it is for no more requests. What a client has given up by now goes on as well, as it would on a
    /// slow network.
    pub fn release(&self) {
        if let Some(entry) = self.shared.state().rules.entry(self.id) {
            entry.is_released = true;
        }
        self.shared.notify();
    }
}

impl Drop for Rule {
    fn drop(&mut self) {
        // What it holds finds no rule, and goes on.
        let id = self.id;
        self.shared
            .state()
            .rules
            .entries
            .retain(|entry| entry.id != id);
        self.shared.notify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(api: ApiKey) -> Head {
        Head {
            api,
            correlation: 1,
            client_id: Some("c".to_owned()),
            transactional_id: Some("app-stage-1".to_owned()),
            partition: Some(("t".to_owned(), 2)),
            asked_for: Vec::new(),
            is_answered: true,
        }
    }

    #[test]
    fn every_condition_has_to_hold() {
        let all = Requests::of(ApiKey::PRODUCE);
        let produce = head(ApiKey::PRODUCE);
        let matching = [
            all.clone(),
            all.clone().to_broker(1),
            all.clone().of_client("c"),
            all.clone().of_transactions("app-"),
            all.clone().to_topic("t"),
            all.clone().to_partition("t", 2).of_client("c").to_broker(1),
        ];
        for requests in &matching {
            assert!(requests.has(1, &produce), "{requests:?}");
        }
        let others = [
            Requests::of(ApiKey::FETCH),
            all.clone().to_broker(2),
            all.clone().of_client("d"),
            all.clone().of_transactions("other-"),
            all.clone().to_topic("u"),
            all.clone().to_partition("t", 1),
        ];
        for requests in &others {
            assert!(!requests.has(1, &produce), "{requests:?}");
        }
        let unknown = Head {
            client_id: None,
            transactional_id: None,
            partition: None,
            ..produce
        };
        assert!(
            matching[..2]
                .iter()
                .all(|requests| requests.has(1, &unknown))
        );
        assert!(
            !matching[2..]
                .iter()
                .any(|requests| requests.has(1, &unknown))
        );
    }

    #[test]
    fn the_oldest_rule_acts_as_often_as_it_may_and_watches_count_all() {
        let mut rules = Rules::default();
        let all = Requests::of(ApiKey::PRODUCE);
        let watch = rules.add(all.clone(), Action::Watch);
        let first = rules.add(all.clone().next(1), Action::HoldRequest);
        let second = rules.add(all, Action::DropRequest);
        let produce = head(ApiKey::PRODUCE);
        let verdict = rules.arrived(1, &produce);
        assert_eq!(verdict.acting, Some((first, Action::HoldRequest)));
        assert_eq!(verdict.counting, [watch, first]);
        let verdict = rules.arrived(1, &produce);
        assert_eq!(verdict.acting, Some((second, Action::DropRequest)));
        assert_eq!(verdict.counting, [watch, second]);
        rules.answered(&verdict.counting);
        let counts = |rules: &mut Rules, id| rules.entry(id).unwrap().counts;
        assert_eq!(counts(&mut rules, watch).arrived, 2);
        assert_eq!(counts(&mut rules, watch).answered, 1);
        assert_eq!(counts(&mut rules, first).answered, 0);
        assert!(rules.arrived(1, &head(ApiKey::FETCH)).counting.is_empty());
        assert!(!rules.is_released(first));
        assert!(rules.is_released(99), "one that is gone holds nothing");
    }
}
