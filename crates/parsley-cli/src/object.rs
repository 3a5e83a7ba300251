//! JSON read strictly: objects only where objects belong, no repeated key, no `null` for something absent.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};

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
                return Err(D::Error::custom(format_args!("`{key}` is given twice")));
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

/// An error of serde_json without the place, which counts lines from the start of what it was given; and the column.
pub fn fault(error: &serde_json::Error) -> (String, usize) {
    let whole = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    (
        whole.strip_suffix(&place).unwrap_or(&whole).to_owned(),
        error.column(),
    )
}
