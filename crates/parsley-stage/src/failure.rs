//! Failures of the application's own code: logic and codecs.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parsley_core::{Channel, Offset};

use crate::BoxError;

/// What failed. A step that it happens in is aborted, and the same record comes again in the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureKind {
    /// A delivered key or value does not decode.
    Decode,
    /// The logic returned an error.
    Logic,
    /// The logic, a codec of the application, or the text of an error of theirs panicked.
    Panic,
    /// An emitted key or value does not encode.
    Encode,
    /// A stored state does not decode, or a new one does not encode.
    State,
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Decode => "decode",
            Self::Logic => "logic",
            Self::Panic => "panic",
            Self::Encode => "encode",
            Self::State => "state",
        })
    }
}

/// The application's code failed on a delivered record. No refusal: the record is delivered again after the task is opened anew.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} failure in stage {stage} on {topic}, partition {}, offset {offset}: {message}", channel.partition)]
pub struct ApplicationError {
    /// The stage.
    pub stage: Arc<str>,
    /// The topic of the record.
    pub topic: Arc<str>,
    /// The channel of the record.
    pub channel: Channel,
    /// The record's offset.
    pub offset: Offset,
    /// What failed.
    pub kind: FailureKind,
    /// The error's own words, with those of its sources.
    pub message: String,
}

impl ApplicationError {
    /// The same without the error's own words, which may quote what the record says: for logs (decision T16).
    pub fn without_words(&self) -> impl fmt::Display + '_ {
        WithoutWords(self)
    }
}

struct WithoutWords<'a>(&'a ApplicationError);

impl fmt::Display for WithoutWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ApplicationError {
            stage,
            topic,
            channel,
            offset,
            kind,
            ..
        } = self.0;
        let partition = channel.partition;
        write!(
            f,
            "{kind} failure in stage {stage} on {topic}, partition {partition}, offset {offset}; the status has its words"
        )
    }
}

/// A failure before anyone knows of which record.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    /// The words of the error.
    pub(crate) message: String,
}

impl Failure {
    /// What an error says. Its text and its end are the application's code: a panic there is the failure then (decision T7).
    pub(crate) fn new(kind: FailureKind, error: BoxError) -> Self {
        let words = catch_unwind(AssertUnwindSafe(move || message_of(&*error)));
        match words {
            Ok(message) => Self { kind, message },
            Err(payload) => Self::of_panic(&*payload),
        }
    }

    /// What a caught panic says.
    pub(crate) fn of_panic(payload: &(dyn Any + Send)) -> Self {
        let message = payload
            .downcast_ref::<&str>()
            .map(|message| (*message).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "a panic without a message".to_owned());
        Self {
            kind: FailureKind::Panic,
            message,
        }
    }
}

/// An error's words, and those of its sources that it does not repeat itself.
fn message_of(error: &dyn Error) -> String {
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let words = error.to_string();
        if !message.contains(&words) {
            message.push_str(": ");
            message.push_str(&words);
        }
        source = error.source();
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the account is closed")]
    struct Closed {
        #[source]
        cause: std::num::ParseIntError,
    }

    #[derive(Debug, thiserror::Error)]
    #[error("refused: {0}")]
    struct Refused(#[source] Closed);

    #[test]
    fn a_message_has_the_words_of_every_source_once() {
        let cause = "x".parse::<u8>().unwrap_err();
        let failure = Failure::new(FailureKind::Logic, Refused(Closed { cause }).into());
        assert_eq!(failure.kind, FailureKind::Logic);
        assert_eq!(
            failure.message,
            "refused: the account is closed: invalid digit found in string"
        );
    }

    #[test]
    fn a_failure_says_what_failed_and_where_with_its_words_and_without() {
        use FailureKind::{Decode, Encode, Logic, Panic, State};
        let kinds = [Decode, Logic, Panic, Encode, State].map(|kind| kind.to_string());
        assert_eq!(kinds, ["decode", "logic", "panic", "encode", "state"]);
        let error = ApplicationError {
            stage: "settle".into(),
            topic: "orders".into(),
            channel: parsley_core::TopicId::of_name("orders").partition(2),
            offset: 7,
            kind: Logic,
            message: "no account 12".to_owned(),
        };
        let place = "logic failure in stage settle on orders, partition 2, offset 7";
        assert_eq!(error.to_string(), format!("{place}: no account 12"));
        let without = format!("{place}; the status has its words");
        assert_eq!(error.without_words().to_string(), without);
    }

    #[test]
    fn a_panic_keeps_its_message() {
        let of = |panic: fn()| {
            let payload = std::panic::catch_unwind(panic).unwrap_err();
            let failure = Failure::of_panic(&*payload);
            assert_eq!(failure.kind, FailureKind::Panic);
            failure.message
        };
        assert_eq!(of(|| std::panic::panic_any("literal")), "literal");
        assert_eq!(
            of(|| std::panic::panic_any(String::from("formatted"))),
            "formatted"
        );
        assert_eq!(of(|| std::panic::panic_any(7)), "a panic without a message");
    }
}
