//! Where to find a cluster, on the command line.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

/// Brokers, as librdkafka takes them: `HOST:PORT`, several separated by commas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brokers(String);

impl Brokers {
    /// As they were given.
    #[cfg(any(feature = "kafka", feature = "fuzzing"))]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Brokers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Text names no brokers. librdkafka passes over the parts that it cannot read, and asks nobody for ever if nothing is left.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoBrokers {
    /// Nothing stands between two commas.
    #[error("broker {number} is empty, expected HOST:PORT, several separated by commas")]
    Empty {
        /// Which one it is, from 1.
        number: usize,
    },
    /// The host is none.
    #[error("broker {number}, `{part}`, has no host, expected HOST:PORT")]
    Host {
        /// Which one it is, from 1.
        number: usize,
        /// What was given.
        part: String,
    },
    /// The port is none.
    #[error(
        "broker {number}, `{part}`, has no port, expected HOST:PORT with a port from 1 to 65535"
    )]
    Port {
        /// Which one it is, from 1.
        number: usize,
        /// What was given.
        part: String,
    },
}

impl FromStr for Brokers {
    type Err = NoBrokers;

    fn from_str(text: &str) -> Result<Self, NoBrokers> {
        for (number, part) in (1..).zip(text.split(',')) {
            check(number, part.trim())?;
        }
        Ok(Self(text.to_owned()))
    }
}

fn check(number: usize, part: &str) -> Result<(), NoBrokers> {
    if part.is_empty() {
        return Err(NoBrokers::Empty { number });
    }
    // librdkafka takes a protocol before the host.
    let rest = part.split_once("://").map_or(part, |(_, rest)| rest);
    // Without a port it is Kafka's own. The colons of an address of IPv6 are none before a port, unless it is in brackets.
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, Some(port)),
        _ => (rest, None),
    };
    let part = || part.to_owned();
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let is_address = |host: &str| host.parse::<Ipv6Addr>().is_ok();
    let is_host = match bare {
        Some(host) => is_address(host),
        None if host.contains(':') => is_address(host),
        None => !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || c == '/'),
    };
    if !is_host {
        return Err(NoBrokers::Host {
            number,
            part: part(),
        });
    }
    let is_port = |port: &str| {
        port.bytes().all(|byte| byte.is_ascii_digit())
            && port.parse().is_ok_and(|port: u16| port > 0)
    };
    match port {
        Some(port) if !is_port(port) => Err(NoBrokers::Port {
            number,
            part: part(),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brokers_have_hosts_and_ports() {
        for good in [
            "localhost:9092",
            "a:1,b:65535",
            "a:1, b:2",
            "a",
            "127.0.0.1:9092",
            "[::1]:9092",
            "::1",
            "SSL://a:9093",
        ] {
            assert!(good.parse::<Brokers>().is_ok(), "{good}");
        }
    }

    /// A comma alone was asked for ever, and port 99999 as whatever was left of it in 16 bits.
    #[test]
    fn a_part_that_is_no_broker_is_named() {
        let fault = |text: &str| text.parse::<Brokers>().expect_err(text);
        for (text, number) in [("", 1), (",", 1), ("a:1,", 2), ("a:1,,b:1", 2), (" ", 1)] {
            assert_eq!(fault(text), NoBrokers::Empty { number }, "{text}");
        }
        for part in [
            "b:99999", "b:65536", "b:0", "b:", "b:x", "b:+1", "b:-1", "[::1]:x",
        ] {
            let part = part.to_owned();
            let text = format!("a:1,{part}");
            assert_eq!(fault(&text), NoBrokers::Port { number: 2, part });
        }
        for part in [":9092", "a b:1", "[a]:1", "a:b:c", "SSL://:1", "a/b:1"] {
            let part = part.to_owned();
            assert_eq!(fault(&part.clone()), NoBrokers::Host { number: 1, part });
        }
    }
}
