//! JSON read strictly: objects only where objects belong, no repeated key, no `null` for something absent; and what is wrong with it told to
//! whoever wrote it.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Unexpected, Visitor};
use serde::ser::{Serialize, Serializer};
use uuid::Uuid;

use crate::plain::clipped;

/// A struct that is written as an object, and read from an object alone; serde's own reading takes an array of its fields as well.
pub struct Object<T>(pub T);

impl<T: Serialize> Serialize for Object<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }

        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

/// An object's entries as they stand, repeated keys among them.
pub struct Entries<K, V>(pub Vec<(K, V)>);

impl<K, V> Default for Entries<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, K: Deserialize<'de>, V: Deserialize<'de>> Deserialize<'de> for Entries<K, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor<K, V>(PhantomData<(K, V)>);

        impl<'de, K: Deserialize<'de>, V: Deserialize<'de>> Visitor<'de> for EntriesVisitor<K, V> {
            type Value = Entries<K, V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(EntriesVisitor(PhantomData))
    }
}

/// An object's entries in the order of their keys, each key once.
pub struct Distinct<K, V>(pub std::collections::BTreeMap<K, V>);

impl<K, V> Default for Distinct<K, V> {
    fn default() -> Self {
        Self(std::collections::BTreeMap::new())
    }
}

impl<'de, K, V> Deserialize<'de> for Distinct<K, V>
where
    K: Deserialize<'de> + Ord + fmt::Display,
    V: Deserialize<'de>,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut distinct = std::collections::BTreeMap::new();
        for (key, value) in Entries::<K, V>::deserialize(deserializer)?.0 {
            if distinct.contains_key(&key) {
                return Err(D::Error::custom(format_args!(
                    "found `{}` twice, expected it once",
                    clipped(&key)
                )));
            }
            distinct.insert(key, value);
        }
        Ok(Self(distinct))
    }
}

/// For a field that may be absent, but is not `null` when it is there.
pub fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Reads a whole number from `least` to `most`.
pub fn whole<'de, D: Deserializer<'de>, T: TryFrom<i128>>(
    deserializer: D,
    least: i128,
    most: i128,
) -> Result<T, D::Error> {
    deserializer.deserialize_i64(WholeVisitor {
        least,
        most,
        number: PhantomData,
    })
}

struct WholeVisitor<T> {
    least: i128,
    most: i128,
    number: PhantomData<T>,
}

impl<T: TryFrom<i128>> WholeVisitor<T> {
    fn within<E: Error>(self, found: i128) -> Result<T, E> {
        let number = if (self.least..=self.most).contains(&found) {
            T::try_from(found).ok()
        } else {
            None
        };
        number.ok_or_else(|| E::invalid_value(Unexpected::Other(&found.to_string()), &self))
    }
}

impl<T: TryFrom<i128>> Visitor<'_> for WholeVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from {} to {}", self.least, self.most)
    }

    fn visit_i64<E: Error>(self, found: i64) -> Result<T, E> {
        self.within(found.into())
    }

    fn visit_u64<E: Error>(self, found: u64) -> Result<T, E> {
        self.within(found.into())
    }

    /// What has a fraction or an exponent, and what has too many digits to be read to the last one.
    fn visit_f64<E: Error>(self, found: f64) -> Result<T, E> {
        // Both bounds are powers of two, which a float has exactly.
        let found = if found >= 2f64.powi(64) {
            format!("a number above {}", u64::MAX)
        } else if found <= -(2f64.powi(63)) {
            format!("a number below {}", -i64::MAX)
        } else {
            format!("{found:?}")
        };
        Err(E::invalid_value(Unexpected::Other(&found), &self))
    }
}

/// A UUID in its hyphenated form: other forms are names like any other.
pub fn hyphenated(text: &str) -> Option<Uuid> {
    let uuid = Uuid::try_parse(text).ok()?;
    (text.len() == uuid::fmt::Hyphenated::LENGTH).then_some(uuid)
}

/// Reads a UUID in its hyphenated form.
pub fn uuid<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Uuid, D::Error> {
    let text = String::deserialize(deserializer)?;
    hyphenated(&text).ok_or_else(|| {
        D::Error::custom(format_args!(
            "found `{}`, expected a UUID such as 00112233-4455-6677-8899-aabbccddeeff",
            clipped(&text)
        ))
    })
}

/// Text is not hexadecimal.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotHexadecimal {
    /// It has another character.
    #[error("not hexadecimal: found `{found}` as character {place}, expected 0 to 9 and a to f")]
    Digit {
        /// Which.
        found: char,
        /// Where, from 1.
        place: usize,
    },
    /// The last byte has one digit.
    #[error("not hexadecimal: found an odd number of digits, {digits}, expected two for each byte")]
    Odd {
        /// How many digits there are.
        digits: usize,
    },
}

/// The bytes that text writes in hexadecimal.
pub fn hexadecimal(text: &str) -> Result<Vec<u8>, NotHexadecimal> {
    hex::decode(text).map_err(|_| {
        let mut characters = (1..).zip(text.chars());
        match characters.find(|(_, character)| !character.is_ascii_hexdigit()) {
            Some((place, found)) => NotHexadecimal::Digit { found, place },
            None => NotHexadecimal::Odd { digits: text.len() },
        }
    })
}

/// A line is not JSON, or of another shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {reason}")]
pub struct Misshapen {
    /// Where in the line, in bytes from 1: where what is wrong ends.
    column: usize,
    /// What was found and what was expected.
    reason: String,
}

/// Reads a line of JSON.
pub fn read<'de, T: Deserialize<'de>>(line: &'de str) -> Result<T, Misshapen> {
    if line.starts_with('\u{feff}') {
        return Err(Misshapen {
            column: 1,
            reason: "found a byte order mark, expected `{`".to_owned(),
        });
    }
    serde_json::from_str(line).map_err(|error| {
        let whole = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        Misshapen {
            column: error.column().max(1),
            reason: for_people(whole.strip_suffix(&place).unwrap_or(&whole)),
        }
    })
}

/// What serde and serde_json say, in the words of somebody who wrote a line of JSON and never heard of them.
fn for_people(reason: &str) -> String {
    for wrong in ["invalid type: ", "invalid value: "] {
        if let Some((found, expected)) = reason
            .strip_prefix(wrong)
            .and_then(|rest| rest.rsplit_once(", expected "))
        {
            let expected = match expected {
                "a sequence" => "an array",
                other => other,
            };
            return format!("found {}, expected {expected}", found_value(found));
        }
    }
    if let Some((length, expected)) = reason
        .strip_prefix("invalid length ")
        .and_then(|rest| rest.split_once(", expected "))
    {
        return format!("found an array of {length}, expected {expected}");
    }
    if let Some(rest) = reason.strip_prefix("unknown field `") {
        if let Some((key, expected)) = rest.rsplit_once("`, expected ") {
            return unknown_key(key, expected);
        }
        if let Some(key) = rest.strip_suffix("`, there are no fields") {
            return unknown_key(key, "none");
        }
    }
    let named = |prefix| reason.strip_prefix(prefix)?.strip_suffix('`');
    if let Some(key) = named("missing field `") {
        return format!("found no key `{key}`, expected it in this object");
    }
    if let Some(key) = named("duplicate field `") {
        return format!("found `{key}` twice, expected it once");
    }
    match reason {
        "EOF while parsing a value" => "found the end of the line, expected a value",
        "EOF while parsing a string" => "found the end of the line, expected that of a string",
        "EOF while parsing an object" => "found the end of the line, expected that of an object",
        "EOF while parsing a list" => "found the end of the line, expected that of an array",
        "expected value" | "expected ident" => "found no JSON, expected a value",
        "trailing characters" => "found more behind the value, expected the end of the line",
        "key must be a string" => "found a key without quotes, expected a string",
        "recursion limit exceeded" => "found arrays or objects nested too deep",
        "trailing comma" => "found a comma behind the last entry",
        "number out of range" => "found a number too large for any field",
        _ if reason.starts_with("control character") => {
            "found a control character in a string, expected an escape"
        }
        _ if reason.starts_with("expected ") => return format!("found other text, {reason}"),
        _ => reason,
    }
    .to_owned()
}

/// A key that the object does not have, and those that it has.
pub fn unknown_key(key: &str, expected: impl fmt::Display) -> String {
    format!(
        "found the unknown key `{}`, expected {expected}",
        clipped(key)
    )
}

/// A value as serde names it: by its kind in its own words, and mostly in quotes.
fn found_value(found: &str) -> String {
    let text = found
        .strip_prefix("string \"")
        .and_then(|text| text.strip_suffix('"'));
    if let Some(text) = text {
        return format!("the string \"{}\"", clipped(text));
    }
    for kind in ["integer `", "floating point `", "boolean `"] {
        let quoted = found.strip_prefix(kind);
        if let Some(value) = quoted.and_then(|value| value.strip_suffix('`')) {
            return value.to_owned();
        }
    }
    match found {
        "sequence" => "an array".to_owned(),
        "map" => "an object".to_owned(),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field of each kind.
    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Fields {
        #[serde(default, deserialize_with = "partition", rename = "partition")]
        _partition: i32,
        #[serde(default, deserialize_with = "offset", rename = "offset")]
        _offset: i64,
        #[serde(default, deserialize_with = "uuid", rename = "topic")]
        _topic: Uuid,
        #[serde(default, rename = "name")]
        _name: String,
    }

    fn partition<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
        whole(deserializer, 0, i32::MAX.into())
    }

    fn offset<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
        whole(deserializer, 0, i64::MAX.into())
    }

    fn fault(line: &str) -> String {
        match read::<Object<Fields>>(line) {
            Ok(_) => panic!("{line} was read"),
            Err(fault) => fault.to_string(),
        }
    }

    /// `[]` was at column 0, numbers were `i32` and `i64` or floating point, keys were fields and arrays sequences.
    #[test]
    fn a_fault_is_told_in_the_words_of_who_wrote_the_line() {
        let long = "x".repeat(100);
        let clipped = format!("{}...", "x".repeat(64));
        let small = "expected a whole number from 0 to 2147483647";
        let large = "expected a whole number from 0 to 9223372036854775807";
        for (line, expected) in [
            ("[]".to_owned(), "column 1: found an array, expected an object".to_owned()),
            ("{".to_owned(), "column 1: found the end of the line, expected that of an object".to_owned()),
            ("\u{feff}{}".to_owned(), "column 1: found a byte order mark, expected `{`".to_owned()),
            ("x".to_owned(), "column 1: found no JSON, expected a value".to_owned()),
            ("{} x".to_owned(), "column 4: found more behind the value, expected the end of the line".to_owned()),
            (r#"{"partition":2147483648}"#.to_owned(), format!("column 23: found 2147483648, {small}")),
            (r#"{"partition":-1}"#.to_owned(), format!("column 15: found -1, {small}")),
            (r#"{"partition":1.5}"#.to_owned(), format!("column 16: found 1.5, {small}")),
            (r#"{"partition":"7"}"#.to_owned(), format!("column 16: found the string \"7\", {small}")),
            (r#"{"partition":null}"#.to_owned(), format!("column 17: found null, {small}")),
            (r#"{"partition":true}"#.to_owned(), format!("column 17: found true, {small}")),
            (r#"{"offset":9223372036854775808}"#.to_owned(), format!("column 29: found 9223372036854775808, {large}")),
            (r#"{"offset":18446744073709551616}"#.to_owned(), format!("column 30: found a number above 18446744073709551615, {large}")),
            (r#"{"offset":-9223372036854775809}"#.to_owned(), format!("column 30: found a number below -9223372036854775807, {large}")),
            (r#"{"name":7}"#.to_owned(), "column 9: found 7, expected a string".to_owned()),
            (r#"{"topic":"t"}"#.to_owned(), "column 13: found `t`, expected a UUID such as 00112233-4455-6677-8899-aabbccddeeff".to_owned()),
            (format!(r#"{{"{long}":1}}"#), format!("column 103: found the unknown key `{clipped}`, expected one of `partition`, `offset`, `topic`, `name`")),
            (format!(r#"{{"offset":"{long}"}}"#), format!("column 112: found the string \"{clipped}\", {large}")),
            (r#"{"name":"","name":""}"#.to_owned(), "column 17: found `name` twice, expected it once".to_owned()),
        ] {
            assert_eq!(fault(&line), expected, "{line}");
        }
    }

    #[test]
    fn a_uuid_has_one_form() {
        let uuid = "00112233-4455-6677-8899-AABBCCDDEEFF";
        assert_eq!(hyphenated(uuid), Uuid::try_parse(uuid).ok());
        for other in [
            "00112233445566778899aabbccddeeff",
            "{00112233-4455-6677-8899-aabbccddeeff}",
            "urn:uuid:00112233-4455-6677-8899-aabbccddeeff",
            "",
        ] {
            assert_eq!(hyphenated(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_not_hexadecimal_is_pointed_at() {
        assert_eq!(hexadecimal("00fF"), Ok(vec![0, 255]));
        for (text, expected) in [
            ("0", "found an odd number of digits, 1,"),
            ("00é0", "found `é` as character 3"),
            ("0x00", "found `x` as character 2"),
        ] {
            let fault = hexadecimal(text).expect_err(text).to_string();
            assert!(
                fault.starts_with(&format!("not hexadecimal: {expected}")),
                "{fault}"
            );
        }
    }
}
