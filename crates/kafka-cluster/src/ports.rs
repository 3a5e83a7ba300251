//! Free ports on the loopback address.

use std::io;
use std::net::{Ipv4Addr, TcpListener};

/// `count` different ports that nothing listened on a moment ago. Another process can take one before the broker does, so a start
/// that fails on a taken port is tried again.
pub(crate) fn free(count: usize) -> io::Result<Vec<u16>> {
    let held = (0..count)
        .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
        .collect::<io::Result<Vec<_>>>()?;
    held.iter()
        .map(|listener| Ok(listener.local_addr()?.port()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_differ_and_can_be_bound() {
        let ports = free(8).unwrap();
        let mut bound: Vec<_> = ports
            .iter()
            .map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).unwrap())
            .collect();
        assert_eq!(bound.len(), 8);
        bound.clear();
    }
}
