//! The lines of a script, read strictly.

use std::fmt;

use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use uuid::Uuid;

use super::names::ChannelName;
use crate::object::{self, Distinct, Entries, Object, present};

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
        match i64::deserialize(deserializer)? {
            negative if negative < 0 => Err(D::Error::custom(format_args!(
                "found {negative}, expected a position of at least 0"
            ))),
            place => Ok(Self(place)),
        }
    }
}

/// How many partitions a sink has: at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partitions(pub i32);

impl<'de> Deserialize<'de> for Partitions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match i32::deserialize(deserializer)? {
            partitions if partitions < 1 => Err(D::Error::custom(format_args!(
                "found {partitions}, expected at least 1 partition"
            ))),
            partitions => Ok(Self(partitions)),
        }
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
    pub topics: Distinct<String, Uuid>,
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
    pub timestamp: i64,
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
    pub sequence: Option<i64>,
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
    pub offsets: Distinct<ChannelName, i64>,
    /// Sequence claims: channel, sender, sequence.
    #[serde(default)]
    pub sequences: Vec<(ChannelName, String, i64)>,
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
        let bytes = hex::decode(&text)
            .map_err(|error| D::Error::custom(format_args!("not hexadecimal: {error}")))?;
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
            .map_err(|error| D::Error::custom(format_args!("not base 64: {error}")))?;
        Ok(Self(bytes.into()))
    }
}

/// Text is not a line of a script.
#[derive(Debug, thiserror::Error)]
#[error("column {column}: {reason}")]
pub struct NotALine {
    column: usize,
    reason: String,
}

/// Reads a line that is neither blank nor a comment.
pub fn parse(text: &str) -> Result<Line, NotALine> {
    serde_json::from_str(text).map_err(|error| {
        let (reason, column) = object::fault(&error);
        NotALine { column, reason }
    })
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
            unknown => return Err(A::Error::unknown_variant(unknown, KINDS)),
        };
        match map.next_key::<String>()? {
            None => Ok(line),
            Some(second) => Err(A::Error::custom(format_args!(
                "found a second key `{second}`, expected one key in a line"
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
            "column 0: invalid type: sequence, expected an object with one key"
        );
        assert_eq!(
            reason("{}"),
            "column 2: found an object without a key, expected one key"
        );
        let unknown = reason(r#"{"recrod": {}}"#);
        assert!(
            unknown.starts_with(
                "column 9: unknown variant `recrod`, expected one of `open`, `record`"
            ),
            "{unknown}"
        );
        assert_eq!(
            reason(r#"{"stop": {}, "holds": {}}"#),
            "column 20: found a second key `holds`, expected one key in a line"
        );
        assert_eq!(
            reason(r#"{"send": {"to": "t"}}"#),
            "column 20: found `t`, expected a channel, `topic:partition` with a partition of at least 0"
        );
        assert_eq!(
            reason(r#"{"position": {"on": "t:0", "next": -1}}"#),
            "column 38: found -1, expected a position of at least 0"
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
                reason(text).contains("unknown field `x`"),
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
                reason.contains("duplicate field") || reason.contains("is given twice"),
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
