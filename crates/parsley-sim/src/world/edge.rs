//! Edge clients: they send, read and claim, and nobody gates them.

use bytes::Bytes;
use parsley_core::{Channel, Clock, Header, Offset, Record, wire};
use parsley_oracle::Actor;

use super::{Content, Rule, Violation, World};
use crate::host::{ConformanceHost, EdgeTransaction};
use crate::payload::{self, Payload};
use crate::plan::EdgeKind;
use crate::trace::Kind;

/// How many records an observer reads at once.
const READ_MAX: usize = 3;

/// An edge client.
pub(super) struct Edge {
    pub number: usize,
    pub actor: Actor,
    pub sends_left: u32,
    /// How many records it has sent.
    pub sent: u64,
    /// What it claims.
    pub clock: Clock,
    /// Sent and not acknowledged.
    pub unacknowledged: Vec<(Channel, Offset)>,
    pub transaction: Option<EdgeTransaction>,
    /// What it claimed when its transaction began: what it claims again when that aborts.
    pub before_transaction: Clock,
    /// By channel of the world.
    pub positions: std::collections::BTreeMap<usize, Offset>,
}

impl Edge {
    pub fn new(number: usize, actor: Actor, sends: u32) -> Self {
        Self {
            number,
            actor,
            sends_left: sends,
            sent: 0,
            clock: Clock::new(),
            unacknowledged: Vec::new(),
            transaction: None,
            before_transaction: Clock::new(),
            positions: std::collections::BTreeMap::new(),
        }
    }
}

impl<H: ConformanceHost> World<H> {
    /// Whether everything that the client has sent is acknowledged. What is, it claims from then on.
    pub(super) fn edge_is_acknowledged(&self, edge: usize) -> bool {
        let unacknowledged = &self.edges[edge].unacknowledged;
        unacknowledged
            .iter()
            .all(|&(channel, offset)| self.host.is_acknowledged(channel, offset))
    }

    fn claim_acknowledged(&mut self, edge: usize) -> bool {
        if !self.edge_is_acknowledged(edge) {
            return false;
        }
        let edge = &mut self.edges[edge];
        for (channel, offset) in edge.unacknowledged.drain(..) {
            edge.clock.claim_offset(channel, offset);
        }
        true
    }

    /// Sends one record. `false` when the client cannot now.
    pub(super) fn edge_send(
        &mut self,
        edge: usize,
        topic: usize,
        key: Option<u64>,
        clock: Option<Bytes>,
    ) -> Result<bool, Violation> {
        let Some(plan) = self.plan.edges.get(edge) else {
            return Ok(false);
        };
        let transactional = matches!(plan.kind, EdgeKind::Transactional { .. });
        let Some(&topic) = plan.to().get(topic) else {
            return Ok(false);
        };
        let exists = self.topics.get(topic).is_some_and(|topic| topic.exists);
        let Some(number) = self.channel_of(topic, key).filter(|_| exists) else {
            return Ok(false);
        };
        if !self.claim_acknowledged(edge) {
            return Ok(false);
        }
        let channel = self.channels[number].channel;
        let timestamp_ms = self.moment() as i64;
        let state = &mut self.edges[edge];
        let payload = Payload::of_edge(state.number, state.sent);
        let mut headers = Vec::new();
        let claimed = state.clock.clone();
        if let Some(bytes) = clock {
            headers.push(Header::new(wire::CLOCK_HEADER, bytes));
        } else if !state.clock.is_empty() {
            headers.push(Header::new(wire::CLOCK_HEADER, wire::encode(&state.clock)));
        }
        let record = Record {
            channel,
            offset: 0,
            timestamp_ms,
            key: key.map(payload::key_bytes),
            value: Some(payload.to_bytes()),
            headers,
        };
        if transactional && state.transaction.is_none() {
            state.transaction = Some(self.host.begin());
            state.before_transaction = state.clock.clone();
        }
        let Some(offset) = self.host.append(record, state.transaction) else {
            return Ok(false);
        };
        state.sent += 1;
        state.unacknowledged.push((channel, offset));
        let (actor, committed) = (state.actor, state.transaction.is_none());
        self.counts.edge_sends += 1;
        let emission = self
            .oracle
            .emit_for(actor, None, self.channels[number].oracle, key)
            .map_err(|misuse| self.violation(Rule::HostFailed, misuse.to_string()))?;
        self.oracle
            .appended(emission, offset)
            .map_err(|misuse| self.violation(Rule::HostFailed, misuse.to_string()))?;
        if committed {
            self.oracle.commit(actor);
        }
        self.put_content(number, offset, Content { key, payload }, claimed);
        self.tell(Some(actor), |world| {
            let clock = world.claims_text(&world.edges[edge].clock);
            Some(Kind::Sent {
                at: world.at(channel, offset)?,
                clock,
            })
        });
        Ok(true)
    }

    /// Ends the client's transaction. `false` when it cannot now.
    pub(super) fn edge_end(&mut self, edge: usize, commit: bool) -> bool {
        let Some(state) = self.edges.get(edge) else {
            return false;
        };
        let (actor, Some(transaction)) = (state.actor, state.transaction) else {
            return false;
        };
        if commit && !self.claim_acknowledged(edge) {
            return false;
        }
        let state = &mut self.edges[edge];
        // What an aborted transaction appended is never waited for by the client, nor claimed.
        state.unacknowledged.clear();
        state.transaction = None;
        if !commit {
            state.clock = std::mem::take(&mut state.before_transaction);
        }
        self.host.end(transaction, commit);
        if commit {
            self.oracle.commit(actor);
            self.tell(Some(actor), |_| Some(Kind::Committed));
        } else {
            self.oracle.abort(actor);
            self.tell(Some(actor), |_| Some(Kind::Aborted));
        }
        true
    }

    /// Reads some committed records of a channel. `false` when there are none.
    pub(super) fn edge_read(&mut self, edge: usize, number: usize) -> Result<bool, Violation> {
        let (Some(state), Some(channel)) = (self.edges.get(edge), self.channels.get(number)) else {
            return Ok(false);
        };
        let (actor, oracle) = (state.actor, channel.oracle);
        let from = state.positions.get(&number).copied().unwrap_or(0);
        let (records, next) = self.host.read(channel.channel, from, READ_MAX);
        self.edges[edge].positions.insert(number, next);
        let any = !records.is_empty();
        for record in records {
            self.counts.edge_reads += 1;
            self.oracle
                .observe(actor, oracle, record.offset)
                .map_err(|found| self.judged(&found))?;
            let clock = &mut self.edges[edge].clock;
            clock.claim_offset(record.channel, record.offset);
            if let Some(bytes) = record.headers.iter().find_map(clock_bytes)
                && let Ok(decoded) = wire::decode(bytes)
            {
                clock.merge(&decoded.into_clock());
            }
            self.tell(Some(actor), |world| {
                Some(Kind::Delivered {
                    at: world.at(record.channel, record.offset)?,
                    was_held: false,
                })
            });
        }
        if any {
            // What a plain client has read stays read.
            self.oracle.commit(actor);
        }
        Ok(any)
    }

    /// Whether the client has something to read on a channel.
    pub(super) fn edge_has_news(&self, edge: usize, number: usize) -> bool {
        let from = self.edges[edge]
            .positions
            .get(&number)
            .copied()
            .unwrap_or(0);
        let ends = self.host.ends(self.channels[number].channel);
        ends.is_some_and(|ends| from.max(ends.log_start) < ends.last_stable)
    }
}

fn clock_bytes(header: &Header) -> Option<&Bytes> {
    (&header.name[..] == wire::CLOCK_HEADER.as_bytes())
        .then_some(header.value.as_ref())
        .flatten()
}
