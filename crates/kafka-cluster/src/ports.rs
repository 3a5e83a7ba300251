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
}
