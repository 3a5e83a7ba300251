//! What can go wrong.

use std::io;
use std::net::SocketAddr;

/// The server cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address cannot be listened on: it is taken, not this machine's, or a port that takes privileges.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address asked for.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The system has no thread for it, or nothing to wait for sockets with.
    #[error("no thread for the status server: {0}")]
    Thread(#[source] io::Error),
}

/// The process has a recorder of metrics already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a recorder of metrics is installed in this process already; have it rendered with Metrics::rendered_by"
)]
pub struct RecorderTaken;
