//! Asks a broker which brokers it knows: the sign that it serves clients.

use std::io;
use std::time::Duration;

use crate::ask::{Answer, Request, ask, invalid};

/// Key of the Metadata request in Kafka's protocol.
const METADATA_KEY: i16 = 3;

/// Version of the request: the first that can ask for no topic and can forbid their creation; served by every broker from 0.11 on.
const METADATA_VERSION: i16 = 4;

/// How many brokers the broker on `port` of the loopback address knows to be alive.
pub(crate) fn live_brokers(port: u16, timeout: Duration) -> io::Result<u32> {
    broker_count(&ask(port, &request(), timeout)?)
}

/// A Metadata request without topics, which creates none.
fn request() -> Request {
    Request::new(METADATA_KEY, METADATA_VERSION)
        .count(0)
        .byte(0)
}

/// The number of brokers that an answer lists, behind the throttle time.
fn broker_count(answer: &Answer) -> io::Result<u32> {
    u32::try_from(answer.i32(4)?).map_err(|_| invalid("a negative number of brokers".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::{answer_of, bytes_of};

    #[test]
    fn the_request_has_the_layout_of_the_protocol() {
        assert_eq!(
            bytes_of(&request()),
            [
                0, 0, 0, 15, 0, 3, 0, 4, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 0, 0
            ],
        );
    }

    #[test]
    fn an_answer_is_counted_only_when_it_is_one() {
        let count = |answer: &[u8]| answer_of(answer).and_then(|answer| broker_count(&answer));
        let answer = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 3];
        assert_eq!(count(&answer).unwrap(), 3);
        assert!(count(&[0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3]).is_err());
        assert!(count(&answer[..11]).is_err(), "too short");
        let negative = [0, 0, 0, 1, 0, 0, 0, 0, 0xff, 0, 0, 0];
        assert!(count(&negative).is_err(), "a negative count");
    }
}
