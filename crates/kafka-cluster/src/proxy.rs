//! A proxy between clients and the brokers of a cluster, which does to requests and answers what a network or a slow broker may do.
//!
//! Clients that bootstrap through [`KafkaCluster::bootstrap`](crate::KafkaCluster::bootstrap) stay behind it, since the brokers advertise its
//! ports; brokers talk to each other past it. It passes frames on as they come until a [`Rule`] says otherwise, and knows nothing of what is in
//! them beyond their headers and, of some requests, the first fields. A connection is a queue, as it is on a broker: what is held holds all
//! that comes behind it on its connection, in its direction.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use kafka_cluster::proxy::{Action, ApiKey, Requests};
//! use kafka_cluster::{ClusterConfig, KafkaCluster};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cluster = KafkaCluster::start(&ClusterConfig { proxied: true, ..ClusterConfig::default() })?;
//! let proxy = cluster.proxy().ok_or("it is proxied")?;
//! let commits = Requests::of(ApiKey::END_TXN).of_transactions("app-").next(1);
//! let lost = proxy.rule(commits, Action::DropResponse);
//! // Clients commit; the broker has done so, and nobody has been told.
//! lost.wait_for_answers(1, Duration::from_secs(60))?;
//! # Ok(())
//! # }
//! ```

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

mod connection;
mod frame;
mod rules;
mod shared;
#[cfg(test)]
mod tests;

pub use frame::ApiKey;
pub use rules::{Action, Requests, Rule, WaitError};

use shared::Shared;

/// How long a broker's port may take to accept.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Whether a broker can be reached through its proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reach {
    /// It can.
    #[default]
    Open,
    /// Its connections are cut, and new ones closed as soon as they are there.
    Refused,
    /// Its connections stay, and nothing passes in either direction but the rest of a frame that is under way.
    Silent,
}

/// A connection was ended because of what one of its sides sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The broker of the connection.
    pub broker: u16,
    /// What was sent.
    pub kind: FaultKind,
}

/// What the proxy does not pass on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FaultKind {
    /// A request longer than a broker takes.
    #[error("a request of {0} bytes")]
    RequestLength(u32),
    /// A frame without the header of a request.
    #[error("a frame without the header of a request")]
    RequestHeader,
    /// An answer too short for its correlation number, or longer than the protocol allows.
    #[error("an answer of {0} bytes")]
    AnswerLength(u32),
    /// An answer to another request than the next.
    #[error("an answer with the correlation number {0}, which is not that of the next request")]
    UnexpectedAnswer(i32),
}

/// The proxies of a cluster's brokers. They and their threads end when this is dropped.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    acceptors: Vec<Acceptor>,
}

/// The thread that takes a broker's connections, and the end of the pair of sockets that wakes it.
#[derive(Debug)]
struct Acceptor {
    port: u16,
    wake: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Opens a port for each of the ports that brokers listen, or are going to listen, on; broker 1 first.
    pub(crate) fn start(upstream_ports: &[u16]) -> io::Result<Self> {
        let mut proxy = Self {
            shared: Arc::default(),
            acceptors: Vec::with_capacity(upstream_ports.len()),
        };
        for (broker, upstream) in (1..).zip(upstream_ports) {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            listener.set_nonblocking(true)?;
            let port = listener.local_addr()?.port();
            let (wake, woken) = UnixStream::pair()?;
            let (shared, upstream) = (Arc::clone(&proxy.shared), *upstream);
            let thread = thread::Builder::new()
                .name(format!("proxy {broker}"))
                .spawn(move || accept(&shared, broker, upstream, &listener, &woken))?;
            proxy.acceptors.push(Acceptor {
                port,
                wake: Some(wake),
                thread: Some(thread),
            });
        }
        Ok(proxy)
    }

    /// The ports that clients connect to, broker 1 first.
    pub(crate) fn ports(&self) -> Vec<u16> {
        self.acceptors
            .iter()
            .map(|acceptor| acceptor.port)
            .collect()
    }

    /// Puts a rule in force. Where several rules act on a request, the oldest does.
    pub fn rule(&self, requests: Requests, action: Action) -> Rule {
        Rule::begin(&self.shared, requests, action)
    }

    /// Cuts all connections to broker `number`, from 1 on. What is held on them is lost. Clients may connect again at once.
    pub fn cut(&self, number: u16) {
        self.shared.cut(Some(number));
    }

    /// Cuts the connections to all brokers.
    pub fn cut_all(&self) {
        self.shared.cut(None);
    }

    /// Says whether broker `number`, from 1 on, can be reached.
    pub fn set_reach(&self, number: u16, reach: Reach) {
        self.shared.set_reach(number, reach);
    }

    /// How many connections to broker `number`, from 1 on, there are.
    #[must_use]
    pub fn connections(&self, number: u16) -> usize {
        self.shared.state().connections(number)
    }

    /// Why connections were ended by what was sent on them; the first 64.
    #[must_use]
    pub fn faults(&self) -> Vec<Fault> {
        self.shared.state().faults().to_vec()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.end_all();
        for acceptor in &mut self.acceptors {
            // Its other end becomes readable.
            acceptor.wake = None;
        }
        for acceptor in &mut self.acceptors {
            if let Some(thread) = acceptor.thread.take() {
                // A panic of it has been printed by now.
                let _ = thread.join();
            }
        }
    }
}

/// Takes connections until it is woken; then waits for the threads of those.
fn accept(
    shared: &Arc<Shared>,
    broker: u16,
    upstream_port: u16,
    listener: &TcpListener,
    woken: &UnixStream,
) {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    loop {
        let mut awaited = [
            PollFd::new(listener, PollFlags::IN),
            PollFd::new(woken, PollFlags::IN),
        ];
        // An interrupted wait looks, finds nothing, and is made again.
        let _ = poll(&mut awaited, None);
        if !awaited[1].revents().is_empty() {
            break;
        }
        threads.retain(|thread| !thread.is_finished());
        let Ok((client, _)) = listener.accept() else {
            continue;
        };
        // What cannot be connected is closed, which the client sees.
        if let Ok(begun) = connect(shared, broker, upstream_port, client) {
            threads.extend(begun);
        }
    }
    for thread in threads {
        let _ = thread.join();
    }
}

fn connect(
    shared: &Arc<Shared>,
    broker: u16,
    upstream_port: u16,
    client: TcpStream,
) -> io::Result<Vec<JoinHandle<()>>> {
    // Some systems hand this on from the listener.
    client.set_nonblocking(false)?;
    if shared.state().reach(broker) == Reach::Refused {
        return Ok(Vec::new());
    }
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, upstream_port));
    let upstream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
    connection::begin(shared, broker, client, upstream)
}
