//! Codecs: how keys, values and states become bytes, and come back.
//!
//! A codec answers for null too. Most have none: where a record brings a null, decoding fails with [`DecodeError::Null`]. Wrap one in
//! [`nullable`] where null means something (a tombstone, a record without key). Wrap one in [`fallible`] where malformed input is to reach
//! the logic instead of failing the step.
//!
//! A codec has to be a function: equal values give equal bytes, on every run and in every process. Keys choose partitions by their bytes,
//! and a restart must reproduce what an aborted step sent. (JSON of a `HashMap` is not such a function; JSON of a `BTreeMap` is.)

use std::any::{TypeId, type_name};
use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::BoxError;

/// Why bytes are not a value.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// A null, and the codec has none.
    #[error("null, where the codec expects a value")]
    Null,
    /// A value, and the codec knows only null.
    #[error("{found} bytes, where the codec expects null")]
    NotNull {
        /// How many bytes there are.
        found: usize,
    },
    /// A number's bytes are too few or too many.
    #[error("{found} bytes, where the codec expects {expected}")]
    Length {
        /// How many bytes the number takes.
        expected: usize,
        /// How many there are.
        found: usize,
    },
    /// Not UTF-8.
    #[error("not UTF-8: {0}")]
    Utf8(#[from] std::str::Utf8Error),
    /// Not JSON, or not JSON of the expected shape.
    #[error("not the expected JSON: {0}")]
    Json(#[source] Arc<serde_json::Error>),
    /// A codec of the application refused.
    #[error("{0}")]
    Custom(#[source] Arc<dyn Error + Send + Sync>),
}

/// Why a value has no bytes.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The value cannot be written as JSON.
    #[error("cannot be written as JSON: {0}")]
    Json(#[source] Arc<serde_json::Error>),
    /// A codec of the application refused.
    #[error("{0}")]
    Custom(#[source] Arc<dyn Error + Send + Sync>),
}

/// What [`fallible`] hands to the logic in place of a value that does not decode: the bytes as they came, and why.
#[derive(Clone, Debug, thiserror::Error)]
#[error("malformed: {error}")]
pub struct Malformed {
    /// The bytes as they came; `None` is null.
    pub bytes: Option<Bytes>,
    /// What is wrong with them.
    #[source]
    pub error: DecodeError,
}

/// What a codec does; [`Codec`] is the handle on it.
trait Format<T>: Send + Sync {
    fn encode(&self, value: &T) -> Result<Option<Bytes>, EncodeError>;
    fn decode(&self, bytes: Option<&Bytes>) -> Result<T, DecodeError>;
}

/// Which codec it is. Two codecs of one identity write the same bytes, as far as types and names can tell.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct CodecId {
    name: Cow<'static, str>,
    value: &'static str,
    types: Vec<TypeId>,
}

impl CodecId {
    fn of<T: 'static>(name: &'static str) -> Self {
        Self {
            name: Cow::Borrowed(name),
            value: type_name::<T>(),
            types: vec![TypeId::of::<T>()],
        }
    }

    fn wrapped<T: 'static>(&self, wrapper: &str) -> Self {
        let mut types = self.types.clone();
        types.push(TypeId::of::<T>());
        Self {
            name: format!("{wrapper}({})", self.name).into(),
            value: type_name::<T>(),
            types,
        }
    }
}

impl fmt::Display for CodecId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.name, self.value)
    }
}

/// Turns values of type `T` into bytes and back. Cheap to clone.
pub struct Codec<T> {
    format: Arc<dyn Format<T>>,
    id: CodecId,
}

impl<T> Codec<T> {
    fn new(format: impl Format<T> + 'static, id: CodecId) -> Self {
        Self {
            format: Arc::new(format),
            id,
        }
    }

    /// The value's bytes; `None` is null.
    ///
    /// # Errors
    ///
    /// [`EncodeError`] when the value has no bytes.
    pub fn encode(&self, value: &T) -> Result<Option<Bytes>, EncodeError> {
        self.format.encode(value)
    }

    /// The value that bytes stand for; `None` is null.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] when they stand for none.
    pub fn decode(&self, bytes: Option<&Bytes>) -> Result<T, DecodeError> {
        self.format.decode(bytes)
    }

    /// The same codec under another name. A topic that appears twice in an application must have the same codecs both times, which is
    /// judged by their types and names: give names to codecs that differ in captured values alone.
    #[must_use]
    pub fn named(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.id.name = name.into();
        self
    }

    /// The codec's name, as errors show it.
    pub fn name(&self) -> &str {
        &self.id.name
    }

    pub(crate) fn id(&self) -> &CodecId {
        &self.id
    }
}

/// A codec whose type is erased: what is left is what bytes become when they are read and written again.
pub(crate) trait Rewrite: Send + Sync {
    fn rewrite(&self, bytes: Option<&Bytes>) -> Result<Option<Bytes>, RewriteError>;
}

/// Why bytes do not come back.
pub(crate) enum RewriteError {
    Decode(DecodeError),
    Encode(EncodeError),
}

impl<T> Rewrite for Codec<T> {
    fn rewrite(&self, bytes: Option<&Bytes>) -> Result<Option<Bytes>, RewriteError> {
        let value = self.decode(bytes).map_err(RewriteError::Decode)?;
        self.encode(&value).map_err(RewriteError::Encode)
    }
}

impl<T> Clone for Codec<T> {
    fn clone(&self) -> Self {
        Self {
            format: Arc::clone(&self.format),
            id: self.id.clone(),
        }
    }
}

impl<T> fmt::Debug for Codec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Codec({})", self.id)
    }
}

fn simple<T: 'static>(format: impl Format<T> + 'static, name: &'static str) -> Codec<T> {
    Codec::new(format, CodecId::of::<T>(name))
}

fn present(bytes: Option<&Bytes>) -> Result<&Bytes, DecodeError> {
    bytes.ok_or(DecodeError::Null)
}

struct Utf8;

impl Format<String> for Utf8 {
    fn encode(&self, value: &String) -> Result<Option<Bytes>, EncodeError> {
        Ok(Some(Bytes::copy_from_slice(value.as_bytes())))
    }
    fn decode(&self, bytes: Option<&Bytes>) -> Result<String, DecodeError> {
        Ok(std::str::from_utf8(present(bytes)?)?.to_owned())
    }
}

/// UTF-8 text, as Kafka's `StringSerializer` writes it.
pub fn string() -> Codec<String> {
    simple(Utf8, "string")
}

struct Raw;

impl Format<Bytes> for Raw {
    fn encode(&self, value: &Bytes) -> Result<Option<Bytes>, EncodeError> {
        Ok(Some(value.clone()))
    }
    fn decode(&self, bytes: Option<&Bytes>) -> Result<Bytes, DecodeError> {
        present(bytes).cloned()
    }
}

/// Bytes as they are, shared and not copied.
pub fn bytes() -> Codec<Bytes> {
    simple(Raw, "bytes")
}

struct RawVec;

impl Format<Vec<u8>> for RawVec {
    fn encode(&self, value: &Vec<u8>) -> Result<Option<Bytes>, EncodeError> {
        Ok(Some(Bytes::copy_from_slice(value)))
    }
    fn decode(&self, bytes: Option<&Bytes>) -> Result<Vec<u8>, DecodeError> {
        Ok(present(bytes)?.to_vec())
    }
}

/// Bytes as they are, in a vector of their own.
pub fn byte_vec() -> Codec<Vec<u8>> {
    simple(RawVec, "byte_vec")
}

struct Null;

impl Format<()> for Null {
    fn encode(&self, (): &()) -> Result<Option<Bytes>, EncodeError> {
        Ok(None)
    }
    fn decode(&self, bytes: Option<&Bytes>) -> Result<(), DecodeError> {
        bytes.map_or(Ok(()), |bytes| {
            Err(DecodeError::NotNull { found: bytes.len() })
        })
    }
}

/// Null and nothing else: for records that never have a key, or never a value.
pub fn null() -> Codec<()> {
    simple(Null, "null")
}

struct BigEndian;

macro_rules! big_endian {
    ($($(#[$doc:meta])* $integer:ident),* $(,)?) => {$(
        impl Format<$integer> for BigEndian {
            fn encode(&self, value: &$integer) -> Result<Option<Bytes>, EncodeError> {
                Ok(Some(Bytes::copy_from_slice(&value.to_be_bytes())))
            }
            fn decode(&self, bytes: Option<&Bytes>) -> Result<$integer, DecodeError> {
                let bytes = present(bytes)?;
                match bytes.as_ref().try_into() {
                    Ok(bytes) => Ok($integer::from_be_bytes(bytes)),
                    Err(_) => Err(DecodeError::Length { expected: size_of::<$integer>(), found: bytes.len() }),
                }
            }
        }

        $(#[$doc])*
        pub fn $integer() -> Codec<$integer> {
            simple(BigEndian, stringify!($integer))
        }
    )*};
}
big_endian! {
    /// Four bytes, big-endian, as Kafka's `IntegerSerializer` writes them.
    i32,
    /// Eight bytes, big-endian, as Kafka's `LongSerializer` writes them.
    i64,
    /// Four bytes, big-endian.
    u32,
    /// Eight bytes, big-endian.
    u64,
}

struct Json;

impl<T: Serialize + DeserializeOwned> Format<T> for Json {
    fn encode(&self, value: &T) -> Result<Option<Bytes>, EncodeError> {
        match serde_json::to_vec(value) {
            Ok(bytes) => Ok(Some(bytes.into())),
            Err(error) => Err(EncodeError::Json(Arc::new(error))),
        }
    }
    fn decode(&self, bytes: Option<&Bytes>) -> Result<T, DecodeError> {
        serde_json::from_slice(present(bytes)?).map_err(|error| DecodeError::Json(Arc::new(error)))
    }
}

/// JSON through serde, compact.
pub fn json<T: Serialize + DeserializeOwned + 'static>() -> Codec<T> {
    simple(Json, "json")
}

struct Nullable<T>(Codec<T>);

impl<T> Format<Option<T>> for Nullable<T> {
    fn encode(&self, value: &Option<T>) -> Result<Option<Bytes>, EncodeError> {
        value
            .as_ref()
            .map_or(Ok(None), |value| self.0.encode(value))
    }
    fn decode(&self, bytes: Option<&Bytes>) -> Result<Option<T>, DecodeError> {
        bytes.map_or(Ok(None), |bytes| self.0.decode(Some(bytes)).map(Some))
    }
}

/// Null is `None`, everything else is `Some` through the given codec. As a value codec it makes tombstones readable and writable, as a
/// key codec it admits records without a key, as a state codec `None` removes the key's state.
pub fn nullable<T: 'static>(codec: Codec<T>) -> Codec<Option<T>> {
    let id = codec.id.wrapped::<Option<T>>("nullable");
    Codec::new(Nullable(codec), id)
}

struct Fallible<T>(Codec<T>);

impl<T> Format<Result<T, Malformed>> for Fallible<T> {
    fn encode(&self, value: &Result<T, Malformed>) -> Result<Option<Bytes>, EncodeError> {
        match value {
            Ok(value) => self.0.encode(value),
            Err(malformed) => Ok(malformed.bytes.clone()),
        }
    }
    fn decode(&self, bytes: Option<&Bytes>) -> Result<Result<T, Malformed>, DecodeError> {
        Ok(self.0.decode(bytes).map_err(|error| Malformed {
            bytes: bytes.cloned(),
            error,
        }))
    }
}

/// Never fails to decode: what the given codec rejects reaches the logic as [`Malformed`], to be counted, routed to a sink of its own or
/// passed on unchanged (a `Malformed` is encoded as the bytes that came).
pub fn fallible<T: 'static>(codec: Codec<T>) -> Codec<Result<T, Malformed>> {
    let id = codec.id.wrapped::<Result<T, Malformed>>("fallible");
    Codec::new(Fallible(codec), id)
}

struct Functions<T, E, D> {
    encode: E,
    decode: D,
    value: PhantomData<fn() -> T>,
}

impl<T, E, D, B> Format<T> for Functions<T, E, D>
where
    E: Fn(&T) -> Result<B, BoxError> + Send + Sync,
    D: Fn(&[u8]) -> Result<T, BoxError> + Send + Sync,
    B: Into<Bytes>,
{
    fn encode(&self, value: &T) -> Result<Option<Bytes>, EncodeError> {
        match (self.encode)(value) {
            Ok(bytes) => Ok(Some(bytes.into())),
            Err(error) => Err(EncodeError::Custom(error.into())),
        }
    }
    fn decode(&self, bytes: Option<&Bytes>) -> Result<T, DecodeError> {
        (self.decode)(present(bytes)?).map_err(|error| DecodeError::Custom(error.into()))
    }
}

/// A codec of two functions. They never see a null; wrap the codec in [`nullable`] for that.
///
/// ```
/// use parsley_stage::codec;
///
/// let celsius = codec::from_fns(
///     |degrees: &f32| Ok(degrees.to_be_bytes().to_vec()),
///     |bytes| Ok(f32::from_be_bytes(bytes.try_into()?)),
/// );
/// let bytes = celsius.encode(&21.5).unwrap();
/// assert_eq!(celsius.decode(bytes.as_ref()).unwrap(), 21.5);
/// assert!(celsius.decode(None).is_err());
/// ```
pub fn from_fns<T, B, E, D>(encode: E, decode: D) -> Codec<T>
where
    T: 'static,
    B: Into<Bytes>,
    E: Fn(&T) -> Result<B, BoxError> + Send + Sync + 'static,
    D: Fn(&[u8]) -> Result<T, BoxError> + Send + Sync + 'static,
{
    let mut id = CodecId::of::<T>("functions");
    id.types.extend([TypeId::of::<E>(), TypeId::of::<D>()]);
    Codec::new(
        Functions {
            encode,
            decode,
            value: PhantomData,
        },
        id,
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn decoded<T>(codec: &Codec<T>, bytes: &'static [u8]) -> Result<T, DecodeError> {
        codec.decode(Some(&Bytes::from_static(bytes)))
    }

    fn encoded<T>(codec: &Codec<T>, value: &T) -> Option<Vec<u8>> {
        codec.encode(value).unwrap().map(|bytes| bytes.to_vec())
    }

    #[test]
    fn a_codec_is_shown_by_its_name_and_type() {
        assert_eq!(
            (i64().name(), i64().named("cents").name()),
            ("i64", "cents")
        );
        let shown = format!("{:?}", i64().named("cents"));
        assert_eq!(shown, format!("Codec({})", i64().named("cents").id()));
        assert!(shown.contains("cents") && shown.contains("i64"), "{shown}");
    }

    #[test]
    fn integers_are_big_endian() {
        assert_eq!(encoded(&i32(), &-2), Some(vec![0xff, 0xff, 0xff, 0xfe]));
        assert_eq!(encoded(&u32(), &0x0102_0304), Some(vec![1, 2, 3, 4]));
        assert_eq!(encoded(&i64(), &1), Some(vec![0, 0, 0, 0, 0, 0, 0, 1]));
        assert_eq!(encoded(&u64(), &u64::MAX), Some(vec![0xff; 8]));
        assert_eq!(decoded(&i32(), &[0x80, 0, 0, 0]).unwrap(), i32::MIN);
        assert_eq!(decoded(&u32(), &[0x80, 0, 0, 0]).unwrap(), 1 << 31);
        assert_eq!(decoded(&i64(), &[0xff; 8]).unwrap(), -1);
        assert_eq!(decoded(&u64(), &[0, 0, 0, 0, 0, 0, 1, 0]).unwrap(), 256);
    }

    #[test]
    fn a_number_of_the_wrong_width_is_an_error() {
        let error = decoded(&i64(), &[1, 2, 3, 4]).unwrap_err();
        assert!(
            matches!(
                error,
                DecodeError::Length {
                    expected: 8,
                    found: 4
                }
            ),
            "{error}"
        );
        let error = decoded(&u32(), &[]).unwrap_err();
        assert!(
            matches!(
                error,
                DecodeError::Length {
                    expected: 4,
                    found: 0
                }
            ),
            "{error}"
        );
    }

    #[test]
    fn a_null_is_an_error_where_the_codec_has_none() {
        assert!(matches!(string().decode(None), Err(DecodeError::Null)));
        assert!(matches!(bytes().decode(None), Err(DecodeError::Null)));
        assert!(matches!(byte_vec().decode(None), Err(DecodeError::Null)));
        assert!(matches!(i32().decode(None), Err(DecodeError::Null)));
        assert!(matches!(
            json::<BTreeMap<String, u8>>().decode(None),
            Err(DecodeError::Null)
        ));
        assert!(matches!(
            json::<Option<u8>>().decode(None),
            Err(DecodeError::Null)
        ));
    }

    #[test]
    fn the_null_codec_knows_nothing_else() {
        assert_eq!(encoded(&null(), &()), None);
        null().decode(None).unwrap();
        assert!(matches!(
            decoded(&null(), b""),
            Err(DecodeError::NotNull { found: 0 })
        ));
    }

    #[test]
    fn nullable_keeps_null_and_empty_apart() {
        let codec = nullable(string());
        assert_eq!(encoded(&codec, &None), None);
        assert_eq!(encoded(&codec, &Some(String::new())), Some(vec![]));
        assert_eq!(codec.decode(None).unwrap(), None);
        assert_eq!(decoded(&codec, b"").unwrap(), Some(String::new()));
    }

    #[test]
    fn fallible_hands_over_what_it_cannot_read_and_writes_it_back_unchanged() {
        let codec = fallible(i32());
        assert_eq!(decoded(&codec, &[0, 0, 0, 7]).unwrap().unwrap(), 7);
        let malformed = decoded(&codec, b"seven").unwrap();
        assert_eq!(
            malformed.as_ref().unwrap_err().bytes.as_deref(),
            Some(&b"seven"[..])
        );
        assert_eq!(encoded(&codec, &malformed), Some(b"seven".to_vec()));
        let null = codec.decode(None).unwrap();
        assert!(matches!(
            null.as_ref().unwrap_err().error,
            DecodeError::Null
        ));
        assert_eq!(encoded(&codec, &null), None);
    }

    #[test]
    fn text_that_is_not_utf_8_and_json_of_another_shape_are_errors() {
        assert!(matches!(
            decoded(&string(), &[0xc3, 0x28]),
            Err(DecodeError::Utf8(_))
        ));
        assert!(matches!(
            decoded(&json::<u8>(), b"300"),
            Err(DecodeError::Json(_))
        ));
        assert!(matches!(
            decoded(&json::<u8>(), b"3 4"),
            Err(DecodeError::Json(_))
        ));
    }

    #[test]
    fn a_codec_of_functions_reports_their_errors() {
        let even = from_fns(
            |n: &u8| {
                if n.is_multiple_of(2) {
                    Ok(vec![*n])
                } else {
                    Err("odd".into())
                }
            },
            |bytes| bytes.first().copied().ok_or_else(|| "empty".into()),
        );
        assert_eq!(encoded(&even, &4), Some(vec![4]));
        assert_eq!(even.encode(&3).unwrap_err().to_string(), "odd");
        assert_eq!(decoded(&even, b"").unwrap_err().to_string(), "empty");
        assert!(matches!(even.decode(None), Err(DecodeError::Null)));
    }

    #[test]
    fn identity_tells_codecs_apart_by_type_name_and_functions() {
        assert!(string().id() == string().id());
        assert!(i32().id() != u32().id());
        assert!(json::<u8>().id() != json::<u16>().id());
        assert!(json::<u32>().id() != u32().id());
        assert!(nullable(json::<u8>()).id() != json::<Option<u8>>().id());
        assert!(fallible(string()).id() == fallible(string()).id());
        let ours = || from_fns(|n: &u8| Ok(vec![*n]), |b| Ok(b[0]));
        assert!(ours().id() == ours().id());
        assert!(ours().id() != from_fns(|n: &u8| Ok(vec![*n]), |b| Ok(b[0])).id());
        assert!(ours().id() != ours().named("another").id());
        assert!(nullable(ours()).id() != nullable(ours().named("another")).id());
    }
}
