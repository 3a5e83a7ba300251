//! What the proxy's threads share.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Shutdown, TcpStream};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::frame::Head;
use super::rules::{RuleId, Rules, Verdict};
use super::{Fault, Reach};

/// How many requests of a connection may wait for their answers. A client that has sent more is read on when one is answered.
const IN_FLIGHT_MAX: usize = 1024;

/// How many connections there may be. One more is closed at once.
const CONNECTIONS_MAX: usize = 1024;

/// How many faults are kept; later ones are left out.
const FAULTS_MAX: usize = 64;

/// A connection's number.
pub(super) type ConnectionId = u64;

/// The state, and the signal that it has changed.
#[derive(Debug, Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) rules: Rules,
    pub(super) has_ended: bool,
    reach: BTreeMap<u16, Reach>,
    connections: BTreeMap<ConnectionId, Connection>,
    next_connection: ConnectionId,
    faults: Vec<Fault>,
}

#[derive(Debug)]
struct Connection {
    broker: u16,
    client: TcpStream,
    upstream: TcpStream,
    in_flight: VecDeque<InFlight>,
}

/// A request that the broker has, or is about to have.
#[derive(Debug)]
struct InFlight {
    correlation: i32,
    verdict: Verdict,
}

impl State {
    pub(super) fn reach(&self, broker: u16) -> Reach {
        self.reach.get(&broker).copied().unwrap_or_default()
    }

    pub(super) fn faults(&self) -> &[Fault] {
        &self.faults
    }

    pub(super) fn connections(&self, broker: u16) -> usize {
        let of_it = |connection: &&Connection| connection.broker == broker;
        self.connections.values().filter(of_it).count()
    }

    fn is_connected(&self, id: ConnectionId) -> bool {
        self.connections.contains_key(&id)
    }

    fn disconnect(&mut self, of: impl Fn(&Connection) -> bool) {
        self.connections.retain(|_, connection| {
            let stays = !of(connection);
            if !stays {
                // A failure says that the peer has closed it already.
                let _ = connection.client.shutdown(Shutdown::Both);
                let _ = connection.upstream.shutdown(Shutdown::Both);
            }
            stays
        });
    }
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something has changed, or for `left` if that is given.
    pub(super) fn wait<'a>(
        &self,
        state: MutexGuard<'a, State>,
        left: Option<Duration>,
    ) -> MutexGuard<'a, State> {
        match left {
            None => self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner),
            Some(left) => {
                let waited = self.changed.wait_timeout(state, left);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }

    pub(super) fn notify(&self) {
        self.changed.notify_all();
    }

    /// Takes up a connection; `None` when it is to be closed.
    pub(super) fn connect(
        &self,
        broker: u16,
        client: TcpStream,
        upstream: TcpStream,
    ) -> Option<ConnectionId> {
        let mut state = self.state();
        let is_refused = state.has_ended || state.reach(broker) == Reach::Refused;
        if is_refused || state.connections.len() >= CONNECTIONS_MAX {
            return None;
        }
        let id = state.next_connection;
        state.next_connection += 1;
        let connection = Connection {
            broker,
            client,
            upstream,
            in_flight: VecDeque::new(),
        };
        state.connections.insert(id, connection);
        Some(id)
    }

    /// Ends a connection, for a fault if there is one.
    pub(super) fn end(&self, id: ConnectionId, fault: Option<Fault>) {
        let mut state = self.state();
        if let Some(connection) = state.connections.remove(&id) {
            let _ = connection.client.shutdown(Shutdown::Both);
            let _ = connection.upstream.shutdown(Shutdown::Both);
            if let Some(fault) = fault
                && state.faults.len() < FAULTS_MAX
            {
                state.faults.push(fault);
            }
        }
        drop(state);
        self.notify();
    }

    pub(super) fn cut(&self, broker: Option<u16>) {
        let mut state = self.state();
        state.disconnect(|connection| broker.is_none_or(|broker| broker == connection.broker));
        drop(state);
        self.notify();
    }

    pub(super) fn set_reach(&self, broker: u16, reach: Reach) {
        let mut state = self.state();
        state.reach.insert(broker, reach);
        if reach == Reach::Refused {
            state.disconnect(|connection| connection.broker == broker);
        }
        drop(state);
        self.notify();
    }

    /// Ends all connections, and takes no more.
    pub(super) fn end_all(&self) {
        let mut state = self.state();
        state.has_ended = true;
        state.disconnect(|_| true);
        drop(state);
        self.notify();
    }

    /// Counts a request that has arrived, and says what is to become of it.
    pub(super) fn arrived(&self, broker: u16, head: &Head) -> Verdict {
        let verdict = self.state().rules.arrived(broker, head);
        self.notify();
        verdict
    }

    /// Waits until the broker can be reached, and takes note of a request that it is about to get. False when the connection has ended.
    pub(super) fn pass_request(
        &self,
        id: ConnectionId,
        broker: u16,
        head: &Head,
        verdict: Verdict,
    ) -> bool {
        let mut state = self.state();
        loop {
            let is_silent = state.reach(broker) == Reach::Silent;
            let Some(connection) = state.connections.get_mut(&id) else {
                return false;
            };
            if !is_silent && connection.in_flight.len() < IN_FLIGHT_MAX {
                if head.is_answered {
                    connection.in_flight.push_back(InFlight {
                        correlation: head.correlation,
                        verdict,
                    });
                }
                return true;
            }
            state = self.wait(state, None);
        }
    }

    /// Takes the request that an answer is for off the list, and counts the answer; `None` when it is not the next to be answered.
    pub(super) fn answered(&self, id: ConnectionId, correlation: i32) -> Option<Verdict> {
        let mut state = self.state();
        let connection = state.connections.get_mut(&id)?;
        let next = connection.in_flight.front()?;
        if next.correlation != correlation {
            return None;
        }
        let verdict = connection.in_flight.pop_front()?.verdict;
        state.rules.answered(&verdict.counting);
        drop(state);
        self.notify();
        Some(verdict)
    }

    /// Waits until the broker can be reached. False when the connection has ended.
    pub(super) fn pass_answer(&self, id: ConnectionId, broker: u16) -> bool {
        let mut state = self.state();
        while state.is_connected(id) && state.reach(broker) == Reach::Silent {
            state = self.wait(state, None);
        }
        state.is_connected(id)
    }

    /// Holds something until the rule is released, or for as long as is said. False when the connection has ended.
    pub(super) fn hold(&self, id: ConnectionId, rule: RuleId, time: Option<Duration>) -> bool {
        let until = time.map(|time| Instant::now() + time);
        let mut state = self.state();
        state.rules.holds(rule, true);
        self.notify();
        while state.is_connected(id) && !state.rules.is_released(rule) {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                break;
            }
            state = self.wait(state, left);
        }
        state.rules.holds(rule, false);
        let goes_on = state.is_connected(id);
        drop(state);
        self.notify();
        goes_on
    }
}
