//! Properties of librdkafka on the command line. A value may be a password, and one that was typed wrongly still is: none is ever printed.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

/// What was given as a property. Reading it never fails, for the parser of the command line would show what it cannot read.
#[derive(Clone)]
#[cfg_attr(
    not(feature = "kafka"),
    allow(dead_code, reason = "without Kafka nothing is set")
)]
pub struct Given(String);

impl FromStr for Given {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Given(…)")
    }
}

#[cfg(feature = "kafka")]
pub use checked::{PropertyError, checked};

#[cfg(feature = "kafka")]
mod checked {
    use rdkafka::ClientConfig;
    use rdkafka::error::KafkaError;
    use rdkafka::types::RDKafkaConfRes;

    use super::Given;

    /// Up to which length librdkafka repeats a value as a whole, so that it can be taken out of what it says.
    const REPEATED: usize = 128;

    /// What was given is no property. Only the names that librdkafka has are shown: a base64 secret ends with `=`, and has nothing before it but
    /// itself.
    #[derive(Debug, PartialEq, Eq, thiserror::Error)]
    pub enum PropertyError {
        /// It is no key and value.
        #[error(
            "argument {number} of --property has no key and `=`, expected KEY=VALUE, such as security.protocol=ssl"
        )]
        NoPair {
            /// Which one it is, from 1.
            number: usize,
        },
        /// librdkafka has no such property.
        #[error(
            "argument {number} of --property begins with no property that librdkafka has, expected KEY=VALUE, such as security.protocol=ssl"
        )]
        Unknown {
            /// Which one it is, from 1.
            number: usize,
        },
        /// librdkafka does not take the value.
        #[error("librdkafka does not take the value of the property {key}: {reason}")]
        Value {
            /// The property.
            key: String,
            /// Its words, without the value.
            reason: String,
        },
    }

    /// Reads each as `KEY=VALUE`.
    pub fn checked(given: &[Given]) -> Result<Vec<(String, String)>, PropertyError> {
        (1..)
            .zip(given)
            .map(|(number, given)| pair(number, given))
            .collect()
    }

    fn pair(number: usize, Given(text): &Given) -> Result<(String, String), PropertyError> {
        let no_pair = PropertyError::NoPair { number };
        let Some((key, value)) = text.split_once('=') else {
            return Err(no_pair);
        };
        let key = key.trim();
        if key.is_empty() {
            return Err(no_pair);
        }
        let (key, value) = (key.to_owned(), value.to_owned());
        let mut one = ClientConfig::new();
        one.set(&key, &value);
        match one.create_native_config() {
            Ok(_) => Ok((key, value)),
            Err(KafkaError::ClientConfig(RDKafkaConfRes::RD_KAFKA_CONF_INVALID, reason, ..)) => {
                let reason = match value.len() {
                    0 => reason,
                    1..=REPEATED => reason.replace(&value, "…"),
                    _ => "it is none that the property can have".to_owned(),
                };
                Err(PropertyError::Value { key, reason })
            }
            Err(_) => Err(PropertyError::Unknown { number }),
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn read(text: &str) -> Result<Vec<(String, String)>, PropertyError> {
            let Ok(given) = text.parse::<Given>();
            checked(&[given])
        }

        #[test]
        fn a_property_is_a_key_and_a_value() {
            let pair = |key: &str, value: &str| Ok(vec![(key.to_owned(), value.to_owned())]);
            assert_eq!(read("client.id=c"), pair("client.id", "c"));
            assert_eq!(read(" client.id = x=y"), pair("client.id", " x=y"));
            assert_eq!(read("client.id="), pair("client.id", ""));
            // One of a topic.
            assert_eq!(read("acks=1"), pair("acks", "1"));
        }

        /// A password behind a colon in place of `=`, or without a key, was printed by the parser of the command line, and one that
        /// librdkafka does not know by librdkafka.
        #[test]
        fn what_is_no_property_is_told_by_its_place_alone() {
            let no_pair = || Err(PropertyError::NoPair { number: 1 });
            for text in [
                "sasl.password:hunter2",
                "=hunter2",
                " =hunter2",
                "hunter2",
                "",
            ] {
                assert_eq!(read(text), no_pair(), "{text}");
            }
            // Base64.
            let unknown = || Err(PropertyError::Unknown { number: 1 });
            for text in ["aHVudGVyMg==", "no.such=hunter2"] {
                assert_eq!(read(text), unknown(), "{text}");
            }
        }

        #[test]
        fn a_value_that_librdkafka_does_not_take_is_not_repeated() {
            let long = "hunter2".repeat(200);
            for key in ["security.protocol", "session.timeout.ms", "debug"] {
                for value in ["hunter2", &long] {
                    let error = read(&format!("{key}={value}")).expect_err(key);
                    let said = error.to_string();
                    assert!(said.contains(key) && !said.contains("hunter2"), "{said}");
                }
            }
        }
    }
}
