//! The project's golden bytes, `testdata/wire.json`.

use std::path::Path;

use serde_json::Value;

use crate::channel::{Channel, SenderId, TopicId};

/// One member of the file.
pub(crate) fn read(member: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/wire.json");
    let text = std::fs::read_to_string(&path).expect("the golden bytes");
    let mut file: Value = serde_json::from_str(&text).expect("JSON");
    file[member].take()
}

pub(crate) fn list(member: &str) -> Vec<Value> {
    match read(member) {
        Value::Array(list) if !list.is_empty() => list,
        other => panic!("{member} is no list with entries: {other}"),
    }
}

pub(crate) fn text<'a>(entry: &'a Value, member: &str) -> &'a str {
    entry[member].as_str().expect("a string")
}

pub(crate) fn hex(entry: &Value) -> Vec<u8> {
    hex::decode(text(entry, "hex")).expect("hex digits")
}

pub(crate) fn number(entry: &Value, member: &str) -> i64 {
    entry[member].as_i64().expect("a number")
}

pub(crate) fn channel(entry: &Value) -> Channel {
    topic(text(entry, "topic")).partition(number(entry, "partition").try_into().expect("an int32"))
}

pub(crate) fn topic(uuid: &str) -> TopicId {
    TopicId::from_uuid(uuid.parse().expect("a UUID"))
}

pub(crate) fn sender(uuid: &str) -> SenderId {
    SenderId::from_uuid(uuid.parse().expect("a UUID"))
}
