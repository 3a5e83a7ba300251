//! Free ports on the loopback address.
//!
//! They are chosen below those that the system gives to connections by itself: a broker that ends and starts again finds its ports free.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, TcpListener};

/// The first port that Linux gives to connections, unless it was told otherwise.
const FIRST_GIVEN: u16 = 32768;

/// Below are services of their own.
const FIRST_CHOSEN: u16 = 15000;

/// How often one port is chosen anew before the system is asked for one.
const CHOICES: u64 = 1000;

/// `count` different ports that nothing listened on a moment ago. Another process can take one before the broker does, so a start
/// that fails on a taken port is tried again.
pub(crate) fn free(count: usize) -> io::Result<Vec<u16>> {
    let below = first_given();
    let held = (0..count)
        .map(|_| listener(below))
        .collect::<io::Result<Vec<_>>>()?;
    held.iter()
        .map(|listener| Ok(listener.local_addr()?.port()))
        .collect()
}

/// Listens on some port below `below`, or, where none is to be had, on one that the system gives.
fn listener(below: u16) -> io::Result<TcpListener> {
    let width = u64::from(below.saturating_sub(FIRST_CHOSEN));
    // Keyed freshly: others choose ports on this machine at the same time.
    let chance = RandomState::new();
    let chosen = (0..CHOICES).filter_map(|choice| {
        let offset = chance.hash_one(choice).checked_rem(width)?;
        u16::try_from(u64::from(FIRST_CHOSEN) + offset).ok()
    });
    let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let mut listeners = chosen.filter_map(|port| bind(port).ok());
    listeners.next().map_or_else(|| bind(0), Ok)
}

/// The first port that the system gives to connections.
fn first_given() -> u16 {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    let first = range
        .ok()
        .and_then(|range| range.split_whitespace().next()?.parse().ok());
    first.unwrap_or(FIRST_GIVEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another process took one of the ports once, in between: what a start copes with by trying again, and so does this.
    #[test]
    fn ports_differ_and_can_be_bound() {
        let bind = |ports: Vec<u16>| -> io::Result<Vec<TcpListener>> {
            let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
            ports.into_iter().map(bind).collect()
        };
        let bound = (0..5).find_map(|_| bind(free(8).unwrap()).ok());
        assert_eq!(bound.expect("one of five times all are free").len(), 8);
    }

    /// A broker was started again, and a client's connection had got its port meanwhile.
    #[test]
    fn ports_are_none_that_the_system_gives() {
        let first = first_given();
        assert!(
            first > FIRST_CHOSEN,
            "this machine gives ports from {first} on"
        );
        assert!(
            free(20)
                .unwrap()
                .into_iter()
                .all(|port| (FIRST_CHOSEN..first).contains(&port))
        );
    }

    #[test]
    fn where_none_can_be_chosen_the_system_gives_one() {
        assert!(listener(FIRST_CHOSEN).is_ok());
    }
}
