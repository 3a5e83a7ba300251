//! `--status`: what the application is doing, on a page beside the run.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use parsley::report::{Holds, Observed, Report};
use parsley::status::{Metrics, StatusServer};

use super::error::DemoError;
use super::ground::Application;

/// Where to serve it: `PORT`, on this machine alone, or `IP:PORT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusAddress(SocketAddr);

/// Text is not where a page can be served.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("found `{0}`, expected PORT or IP:PORT with a port from 0 to 65535")]
pub struct NotAnAddress(String);

impl FromStr for StatusAddress {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<Self, NotAnAddress> {
        let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let port = text.parse().map(|port: u16| SocketAddr::new(here, port));
        port.or_else(|_| text.parse())
            .map(Self)
            .map_err(|_| NotAnAddress(text.to_owned()))
    }
}

/// The application as those see it who look at it.
struct Shown(Arc<dyn Application>);

impl Observed for Shown {
    fn report(&self) -> Report {
        self.0.report()
    }

    fn holds(&self) -> Holds {
        self.0.holds()
    }
}

/// A page that is served for as long as this lives.
pub struct StatusPage {
    server: StatusServer,
    _shown: Arc<Shown>,
}

impl StatusPage {
    /// Has metrics recorded: before the application starts.
    pub fn record() -> Result<Metrics, DemoError> {
        Ok(Metrics::install()?)
    }

    /// Serves it, and says on standard error where.
    pub fn serve(
        StatusAddress(address): StatusAddress,
        metrics: Metrics,
        running: &Arc<dyn Application>,
    ) -> Result<Self, DemoError> {
        let shown = Arc::new(Shown(Arc::clone(running)));
        let builder = StatusServer::builder().address(address).metrics(metrics);
        let server = builder.start(&shown)?;
        // Who has closed standard error knows the address, or cannot look.
        let _ = writeln!(io::stderr(), "status: http://{}/", server.address());
        Ok(Self {
            server,
            _shown: shown,
        })
    }

    /// Ends it: nobody is there from now on.
    pub fn end(self) {
        self.server.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_on_this_machine_alone() {
        let at = |text: &str| text.parse::<StatusAddress>().map(|at| at.0.to_string());
        assert_eq!(at("9090").as_deref(), Ok("127.0.0.1:9090"));
        assert_eq!(at("0").as_deref(), Ok("127.0.0.1:0"));
        assert_eq!(at("0.0.0.0:9090").as_deref(), Ok("0.0.0.0:9090"));
        assert_eq!(at("[::1]:9090").as_deref(), Ok("[::1]:9090"));
        for text in [
            "",
            "65536",
            "localhost:9090",
            "127.0.0.1",
            ":9090",
            "-1",
            "::1",
        ] {
            assert_eq!(at(text), Err(NotAnAddress(text.to_owned())));
        }
    }
}
