//! The lines of a script, read strictly.

use std::fmt;

use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use uuid::Uuid;

use super::names::ChannelName;
use crate::object::{self, Distinct, Entries, Misshapen, Object, present};
use crate::plain::clipped;

/// A map from channels to positions.
pub type Places = Distinct<ChannelName, Place>;

/// One line.
pub enum Line {
    /// Initialise.
    Open(Box<Open>),
    /// Feed a record.
    Record(Box<Record>),
    /// The consumer's position.
    Position(Position),
    /// Stamp one send.
    Send(Send),
    /// Open a step.
    Begin,
    /// End a step.
    Commit(Places),
    /// Everything sent so far is acknowledged.
    Fence(Places),
    /// Lose the step and end the execution.
    Abort,
    /// Take a mark.
    Mark,
    /// Watermark evidence.
    Watermarks(Places),
    /// Commit and end the execution.
    Stop,
    /// A check and a sweep.
    Truncate(Truncate),
    /// Report what is held.
    Holds,
    /// Print the committed store.
    Store,
}

/// The keys a line can have, in the order of [`Line`].
const KINDS: &[&str] = &[
    "open",
    "record",
    "position",
    "send",
    "begin",
    "commit",
    "fence",
    "abort",
    "mark",
    "watermarks",
    "stop",
    "truncate",
    "holds",
    "store",
];

/// A position or an end: at least 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(pub i64);

impl<'de> Deserialize<'de> for Place {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        object::whole(deserializer, 0, i64::MAX.into()).map(Self)
    }
}

/// How many partitions a sink has: at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partitions(pub i32);

impl<'de> Deserialize<'de> for Partitions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        object::whole(deserializer, 1, i32::MAX.into()).map(Self)
    }
}

/// Any number that a record can carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Number(pub i64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        object::whole(deserializer, i64::MIN.into(), i64::MAX.into()).map(Self)
    }
}

/// A topic's UUID.
pub struct TopicUuid(pub Uuid);

impl<'de> Deserialize<'de> for TopicUuid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        object::uuid(deserializer).map(Self)
    }
}

/// A sequence claim, written as an array: channel, sender, sequence.
pub struct SequenceClaim(pub ChannelName, pub String, pub Number);

impl<'de> Deserialize<'de> for SequenceClaim {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ClaimVisitor;

        impl<'de> Visitor<'de> for ClaimVisitor {
            type Value = SequenceClaim;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of three, channel, sender and sequence")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let short = |length| A::Error::invalid_length(length, &self);
                let claim = SequenceClaim(
                    seq.next_element()?.ok_or_else(|| short(0))?,
                    seq.next_element()?.ok_or_else(|| short(1))?,
                    seq.next_element()?.ok_or_else(|| short(2))?,
                );
                let mut length = 3;
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    length += 1;
                }
                if length == 3 {
                    Ok(claim)
                } else {
                    Err(short(length))
                }
            }
        }

        deserializer.deserialize_seq(ClaimVisitor)
    }
}

/// Fields of `open`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Open {
    /// What the node's sender identity is made from.
    pub name: String,
    /// The received channels.
    pub inputs: Vec<ChannelName>,
    /// The declared sinks.
    pub sinks: Vec<String>,
    /// The sinks' partitions.
    #[serde(default)]
    pub partitions: Distinct<String, Partitions>,
    /// Topics whose UUID is not made from their name.
    #[serde(default)]
    pub topics: Distinct<String, TopicUuid>,
    /// Reported start positions.
    #[serde(default)]
    pub start: Places,
    /// High watermarks.
    #[serde(default)]
    pub ends: Places,
    /// Log starts as learned at initialisation.
    #[serde(default)]
    pub log_starts: Places,
    /// Topics found gone.
    #[serde(default)]
    pub deleted: Vec<String>,
}

/// Fields of `record`. What the record itself carries (clock, sender, sequence, headers) is the node's to judge and read as it is.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Where it stands.
    pub on: ChannelName,
    /// Its position.
    pub offset: Place,
    /// The key.
    #[serde(default)]
    pub key: Option<String>,
    /// The value, as text.
    #[serde(default)]
    pub value: Option<String>,
    /// The value, as bytes.
    #[serde(default, deserialize_with = "present")]
    pub value_b64: Option<Base64>,
    /// Milliseconds since the Unix epoch.
    #[serde(default)]
    pub timestamp: Number,
    /// The clock.
    #[serde(default, deserialize_with = "present")]
    pub clock: Option<Object<Clock>>,
    /// The bytes of `vc`, whatever they are.
    #[serde(default, deserialize_with = "present")]
    pub clock_hex: Option<Hexadecimal>,
    /// The sender's name or UUID.
    #[serde(default, deserialize_with = "present")]
    pub sender: Option<String>,
    /// The send sequence.
    #[serde(default, deserialize_with = "present")]
    pub sequence: Option<Number>,
    /// Application headers in their order. A name may come more than once.
    #[serde(default)]
    pub headers: Entries<String, Option<String>>,
}

/// A clock.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clock {
    /// Offset claims.
    #[serde(default)]
    pub offsets: Distinct<ChannelName, Number>,
    /// Sequence claims: channel, sender, sequence.
    #[serde(default)]
    pub sequences: Vec<SequenceClaim>,
}

/// Fields of `position`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Position {
    /// The channel.
    pub on: ChannelName,
    /// The position from which the consumer reads on.
    pub next: Place,
}

/// Fields of `send`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Send {
    /// The channel.
    pub to: ChannelName,
}

/// Fields of `truncate`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Truncate {
    /// Log starts as learned now.
    #[serde(default)]
    pub log_starts: Places,
    /// Topics found gone now.
    #[serde(default)]
    pub gone: Vec<String>,
    /// Log starts that were learned a delay ago.
    #[serde(default)]
    pub drop_below: Places,
    /// Topics that were found gone a delay ago.
    #[serde(default)]
    pub drop_gone: Vec<String>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// Bytes written in hexadecimal.
pub struct Hexadecimal(pub Bytes);

impl<'de> Deserialize<'de> for Hexadecimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = object::hexadecimal(&text).map_err(D::Error::custom)?;
        Ok(Self(bytes.into()))
    }
}

/// Bytes written in base 64.
pub struct Base64(pub Bytes);

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use base64::Engine;
        let text = String::deserialize(deserializer)?;
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(&text)
            .map_err(|_| {
                D::Error::custom(format_args!(
                    "found `{}`, expected base 64 in its standard alphabet, padded with `=`",
                    clipped(&text)
                ))
            })?;
        Ok(Self(bytes.into()))
    }
}

/// Reads a line that is neither blank nor a comment.
pub fn parse(text: &str) -> Result<Line, Misshapen> {
    object::read(text)
}

impl<'de> Deserialize<'de> for Line {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(LineVisitor)
    }
}

struct LineVisitor;

impl<'de> Visitor<'de> for LineVisitor {
    type Value = Line;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with one key")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Line, A::Error> {
        let Some(kind) = map.next_key::<String>()? else {
            return Err(A::Error::custom(
                "found an object without a key, expected one key",
            ));
        };
        let line = match kind.as_str() {
            "open" => Line::Open(Box::new(map.next_value::<Object<Open>>()?.0)),
            "record" => Line::Record(Box::new(record(&mut map)?)),
            "position" => Line::Position(map.next_value::<Object<_>>()?.0),
            "send" => Line::Send(map.next_value::<Object<_>>()?.0),
            "begin" => nothing(&mut map, Line::Begin)?,
            "commit" => Line::Commit(map.next_value()?),
            "fence" => Line::Fence(map.next_value()?),
            "abort" => nothing(&mut map, Line::Abort)?,
            "mark" => nothing(&mut map, Line::Mark)?,
            "watermarks" => Line::Watermarks(map.next_value()?),
            "stop" => nothing(&mut map, Line::Stop)?,
            "truncate" => Line::Truncate(map.next_value::<Object<_>>()?.0),
            "holds" => nothing(&mut map, Line::Holds)?,
            "store" => nothing(&mut map, Line::Store)?,
            unknown => {
                let kinds: Vec<String> = KINDS.iter().map(|kind| format!("`{kind}`")).collect();
                let expected = format_args!("one of {}", kinds.join(", "));
                return Err(A::Error::custom(object::unknown_key(unknown, expected)));
            }
        };
        match map.next_key::<String>()? {
            None => Ok(line),
            Some(second) => Err(A::Error::custom(format_args!(
                "found a second key `{}`, expected one key in a line",
                clipped(second)
            ))),
        }
    }
}

fn nothing<'de, A: MapAccess<'de>>(map: &mut A, line: Line) -> Result<Line, A::Error> {
    let Object(Nothing {}) = map.next_value()?;
    Ok(line)
}

fn record<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Record, A::Error> {
    let Object(record) = map.next_value::<Object<Record>>()?;
    if record.value.is_some() && record.value_b64.is_some() {
        return Err(A::Error::custom(
            "found `value` and `value_b64`, expected one of them",
        ));
    }
    if record.clock.is_some() && record.clock_hex.is_some() {
        return Err(A::Error::custom(
            "found `clock` and `clock_hex`, expected one of them",
        ));
    }
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(text: &str) -> String {
        match parse(text) {
            Ok(_) => panic!("{text} was read as a line"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_fault_says_what_was_found_what_was_expected_and_where() {
        assert_eq!(
            reason("[]"),
            "column 1: found an array, expected an object with one key"
        );
        assert_eq!(
            reason("{}"),
            "column 2: found an object without a key, expected one key"
        );
        let unknown = reason(r#"{"recrod": {}}"#);
        assert!(
            unknown.starts_with(
                "column 9: found the unknown key `recrod`, expected one of `open`, `record`"
            ),
            "{unknown}"
        );
        assert_eq!(
            reason(r#"{"stop": {}, "holds": {}}"#),
            "column 20: found a second key `holds`, expected one key in a line"
        );
        assert_eq!(
            reason(r#"{"send": {"to": "t"}}"#),
            "column 20: found `t`, expected a channel, `topic:partition` with a partition from 0 to 2147483647"
        );
        assert_eq!(
            reason(r#"{"position": {"on": "t:0", "next": -1}}"#),
            "column 37: found -1, expected a whole number from 0 to 9223372036854775807"
        );
    }

    #[test]
    fn unknown_keys_are_faults_at_every_level() {
        for text in [
            r#"{"open": {"name": "n", "inputs": [], "sinks": [], "x": 1}}"#,
            r#"{"record": {"on": "t:0", "offset": 0, "x": 1}}"#,
            r#"{"record": {"on": "t:0", "offset": 0, "clock": {"x": 1}}}"#,
            r#"{"position": {"on": "t:0", "next": 0, "x": 1}}"#,
            r#"{"send": {"to": "t:0", "x": 1}}"#,
            r#"{"begin": {"x": 1}}"#,
            r#"{"abort": {"x": 1}}"#,
            r#"{"mark": {"x": 1}}"#,
            r#"{"stop": {"x": 1}}"#,
            r#"{"truncate": {"x": 1}}"#,
            r#"{"holds": {"x": 1}}"#,
            r#"{"store": {"x": 1}}"#,
        ] {
            assert!(
                reason(text).contains("found the unknown key `x`, expected "),
                "{text}: {}",
                reason(text)
            );
        }
    }

    #[test]
    fn a_key_is_given_once() {
        for text in [
            r#"{"record": {"on": "t:0", "offset": 0, "offset": 1}}"#,
            r#"{"record": {"on": "t:0", "offset": 0, "clock": {"offsets": {"t:0": 1, "t:0": 2}}}}"#,
            r#"{"fence": {"t:0": 1, "t:0": 2}}"#,
            r#"{"open": {"name": "n", "inputs": [], "sinks": [], "topics": {}, "topics": {}}}"#,
        ] {
            let reason = reason(text);
            assert!(
                reason.contains(" twice, expected it once"),
                "{text}: {reason}"
            );
        }
    }

    #[test]
    fn a_header_name_may_come_twice_and_a_header_may_be_null() {
        let line = parse(
            r#"{"record": {"on": "t:0", "offset": 0, "headers": {"h": "x", "": null, "h": ""}}}"#,
        )
        .unwrap();
        let Line::Record(record) = line else {
            panic!("not a record")
        };
        let header = |name: &str, value: Option<&str>| (name.to_owned(), value.map(str::to_owned));
        assert_eq!(
            record.headers.0,
            [
                header("h", Some("x")),
                header("", None),
                header("h", Some(""))
            ]
        );
    }

    /// Triples were tuples of size 3, partitions had no upper end, and a name of any length was repeated in full.
    #[test]
    fn a_fault_gives_lengths_and_ends_and_clips_names() {
        let claims = |claims: &str| {
            format!(
                r#"{{"record": {{"on": "t:0", "offset": 0, "clock": {{"sequences": [{claims}]}}}}}}"#
            )
        };
        let partitions = |partitions: &str| {
            format!(
                r#"{{"open": {{"name": "n", "inputs": [], "sinks": ["s"], "partitions": {{"s": {partitions}}}}}}}"#
            )
        };
        let long = "x".repeat(1000);
        let clipped = format!("`{}...`", "x".repeat(64));
        let triple = "expected an array of three, channel, sender and sequence";
        for (text, expected) in [
            (claims("[]"), format!("found an array of 0, {triple}")),
            (claims(r#"["t:0", "s"]"#), format!("found an array of 2, {triple}")),
            (claims(r#"["t:0", "s", 1, 2, {}]"#), format!("found an array of 5, {triple}")),
            (
                r#"{"record": {"on": "t:0", "offset": 0, "value_b64": "YQ"}}"#.to_owned(),
                "found `YQ`, expected base 64 in its standard alphabet, padded with `=`".to_owned(),
            ),
            (r#"{"truncate": {"gone": {"t": 1}}}"#.to_owned(), "found an object, expected an array".to_owned()),
            (claims(r#"{"t:0": 1}"#), format!("found an object, {triple}")),
            (
                claims(r#"["t:0", "s", 1.0]"#),
                "found 1.0, expected a whole number from -9223372036854775808 to 9223372036854775807".to_owned(),
            ),
            (partitions("0"), "found 0, expected a whole number from 1 to 2147483647".to_owned()),
            (partitions("2147483648"), "found 2147483648, expected a whole number from 1 to 2147483647".to_owned()),
            (format!(r#"{{"{long}": 1}}"#), format!("found the unknown key {clipped}, expected one of `open`")),
            (format!(r#"{{"stop": {{}}, "{long}": 1}}"#), format!("found a second key {clipped}, expected one")),
            (format!(r#"{{"send": {{"to": "{long}"}}}}"#), format!("found {clipped}, expected a channel")),
            (format!(r#"{{"fence": {{"{long}:0": 1, "{long}:0": 1}}}}"#), format!("found {clipped} twice, expected it once")),
            (partitions(r#"1}, "topics": {"t": "00112233445566778899aabbccddeeff""#), "found `00112233445566778899aabbccddeeff`, expected a UUID such as 00112233-".to_owned()),
        ] {
            let reason = reason(&text);
            assert!(reason.contains(&expected), "{text}: {reason}");
        }
    }

    #[test]
    fn other_shapes_are_faults() {
        for text in [
            "",
            "null",
            "{",
            r#"{"stop": {}} x"#,
            r#"{"stop": null}"#,
            r#"{"stop": []}"#,
            r#"{"send": ["t:0"]}"#,
            r#"{"record": {"offset": 0}}"#,
            r#"{"record": {"on": "t:0"}}"#,
            r#"{"record": {"on": "t:0", "offset": 1.5}}"#,
            r#"{"record": {"on": "t:0", "offset": 9223372036854775808}}"#,
            r#"{"record": {"on": "t:0", "offset": 0, "key": 7}}"#,
            r#"{"record": {"on": "t:0", "offset": 0, "timestamp": null}}"#,
            r#"{"record": {"on": "t:0", "offset": 0, "clock": null}}"#,
            r#"{"record": {"on": "t:0", "offset": 0, "clock": [{}, []]}}"#,
            r#"{"record": {"on": "t:0", "offset": 0, "clock": {}, "clock_hex": ""}}"#,
            r#"{"record": {"on": "t:0", "offset": 0, "clock_hex": "0"}}"#,
            r#"{"record": {"on": "t:0", "offset": 0, "value": "v", "value_b64": ""}}"#,
            r#"{"record": {"on": "t:0", "offset": 0, "value_b64": "?"}}"#,
            r#"{"record": {"on": "t:0", "offset": 0, "clock": {"sequences": [["t:0", "s"]]}}}"#,
            r#"{"record": {"on": "t:0", "offset": 0, "headers": {"h": 1}}}"#,
            r#"{"open": {"inputs": [], "sinks": []}}"#,
            r#"{"open": {"name": "n", "inputs": ["t"], "sinks": []}}"#,
            r#"{"open": {"name": "n", "inputs": [], "sinks": ["s"], "partitions": {"s": 0}}}"#,
            r#"{"open": {"name": "n", "inputs": [], "sinks": [], "topics": {"t": "x"}}}"#,
            r#"{"watermarks": {"t:0": -1}}"#,
        ] {
            assert!(!reason(text).is_empty());
        }
    }
}
