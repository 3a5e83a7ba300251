//! Asks a broker which brokers it knows: the sign that it serves clients.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// Key of the Metadata request in Kafka's protocol.
const METADATA_KEY: i16 = 3;

/// Version of the request: the first that can ask for no topic and can forbid their creation; served by every broker from 0.11 on.
const METADATA_VERSION: i16 = 4;

/// The longest answer that is read, in bytes. One without topics takes some dozen bytes a broker.
const ANSWER_LEN_MAX: u32 = 1 << 20;

/// How many brokers the broker on `port` of the loopback address knows to be alive.
pub(crate) fn live_brokers(port: u16, timeout: Duration) -> io::Result<u32> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    stream.write_all(&request(1))?;
    let mut len = [0; 4];
    stream.read_exact(&mut len)?;
    let len = u32::from_be_bytes(len);
    if len > ANSWER_LEN_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("an answer of {len} bytes"),
        ));
    }
    let mut answer = vec![0; len as usize];
    stream.read_exact(&mut answer)?;
    broker_count(&answer, 1)
}

/// A Metadata request without topics, with its length before it.
fn request(correlation: i32) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(METADATA_KEY.to_be_bytes());
    body.extend(METADATA_VERSION.to_be_bytes());
    body.extend(correlation.to_be_bytes());
    body.extend((-1_i16).to_be_bytes()); // no client id
    body.extend(0_i32.to_be_bytes()); // no topics
    body.push(0); // create none
    let mut framed = u32::try_from(body.len())
        .expect("a request of 15 bytes")
        .to_be_bytes()
        .to_vec();
    framed.extend(body);
    framed
}

/// The number of brokers that an answer lists, behind the correlation number and the throttle time.
fn broker_count(answer: &[u8], correlation: i32) -> io::Result<u32> {
    let word = |at: usize| {
        answer
            .get(at..at + 4)
            .and_then(|bytes| <[u8; 4]>::try_from(bytes).ok())
            .map(i32::from_be_bytes)
    };
    match (word(0), word(8)) {
        (Some(answered), Some(count)) if answered == correlation => {
            u32::try_from(count).map_err(|_| {
                io::Error::new(io::ErrorKind::InvalidData, "a negative number of brokers")
            })
        }
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "not an answer to the Metadata request",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_has_the_layout_of_the_protocol() {
        assert_eq!(
            request(1),
            [
                0, 0, 0, 15, 0, 3, 0, 4, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 0, 0
            ],
        );
    }

    #[test]
    fn an_answer_is_counted_only_when_it_is_one() {
        let answer = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 3];
        assert_eq!(broker_count(&answer, 1).unwrap(), 3);
        assert!(
            broker_count(&answer, 2).is_err(),
            "another correlation number"
        );
        assert!(broker_count(&answer[..11], 1).is_err(), "too short");
        assert!(
            broker_count(&[0, 0, 0, 1, 0, 0, 0, 0, 0xff, 0, 0, 0], 1).is_err(),
            "a negative count"
        );
    }
}
