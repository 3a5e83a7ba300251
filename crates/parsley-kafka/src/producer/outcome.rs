//! Calls about a transaction, and what their errors say of it.

use std::time::{Duration, Instant};

use rdkafka::error::{KafkaError, RDKafkaError};

use super::{CALL, ProduceError, REPORTS};

/// Makes a call about a transaction until it has an outcome that is its own: librdkafka goes on with the call that it was making. The call is told
/// how long it may take, which is not beyond `until`.
pub(super) fn again(
    until: Instant,
    what: &'static str,
    mut call: impl FnMut(Duration) -> Result<(), KafkaError>,
) -> Result<(), ProduceError> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let Err(source) = call(left.clamp(REPORTS, CALL)) else {
            return Ok(());
        };
        let is_retriable = transaction_error(&source).is_some_and(RDKafkaError::is_retriable);
        if is_retriable && Instant::now() < until {
            continue;
        }
        return Err(classified(what, source));
    }
}

fn transaction_error(error: &KafkaError) -> Option<&RDKafkaError> {
    match error {
        KafkaError::Transaction(error) => Some(error),
        _ => None,
    }
}

pub(super) fn classified(what: &'static str, source: KafkaError) -> ProduceError {
    let can_be_aborted = transaction_error(&source)
        .is_some_and(|error| error.txn_requires_abort() && !error.is_fatal());
    match can_be_aborted {
        true => ProduceError::Abort { what, source },
        false => ProduceError::Fatal { what, source },
    }
}
