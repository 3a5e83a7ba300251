//! Calls about a transaction, and what their errors say of it.

use std::time::{Duration, Instant};

use rdkafka::error::{KafkaError, RDKafkaError};
use rdkafka::producer::{BaseProducer, Producer, ProducerContext};

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

/// Why librdkafka has given up the transaction that is open, if it has: it says so to who would begin another.
pub(super) fn given_up<C: ProducerContext>(producer: &BaseProducer<C>) -> Option<KafkaError> {
    let source = producer.begin_transaction().err()?;
    let error = transaction_error(&source)?;
    (error.txn_requires_abort() || error.is_fatal()).then_some(source)
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

#[cfg(test)]
mod tests {
    use rdkafka::config::ClientConfig;
    use rdkafka::mocking::MockCluster;
    use rdkafka::producer::BaseRecord;
    use rdkafka::types::{RDKafkaApiKey, RDKafkaErrorCode, RDKafkaRespErr};

    use super::*;

    const BOUND: Duration = Duration::from_secs(60);

    fn producer(brokers: &str) -> BaseProducer {
        ClientConfig::new()
            .set("bootstrap.servers", brokers)
            .set("transactional.id", "outcomes")
            .create()
            .unwrap()
    }

    /// What librdkafka says of a commit when a request on its way is answered with an error.
    fn commit_after(api: RDKafkaApiKey, error: RDKafkaRespErr) -> KafkaError {
        let cluster = MockCluster::new(1).unwrap();
        cluster.create_topic("t", 1, 1).unwrap();
        let producer = producer(&cluster.bootstrap_servers());
        producer.init_transactions(BOUND).unwrap();
        producer.begin_transaction().unwrap();
        cluster.request_errors(api, &[error]);
        let record = BaseRecord::<(), _>::to("t").partition(0).payload("v");
        producer.send(record).map_err(|(error, _)| error).unwrap();
        commit(&producer).unwrap_err()
    }

    fn commit<C: ProducerContext>(producer: &BaseProducer<C>) -> Result<(), KafkaError> {
        producer.commit_transaction(BOUND)
    }

    fn code(error: &ProduceError) -> Option<RDKafkaErrorCode> {
        match error {
            ProduceError::Abort { source, .. } | ProduceError::Fatal { source, .. } => {
                transaction_error(source).map(RDKafkaError::code)
            }
            ProduceError::TooLarge { .. } | ProduceError::WentBack { .. } => None,
        }
    }

    /// B09: what librdkafka says can be aborted is aborted.
    #[test]
    fn b09_an_error_that_asks_for_an_abort_is_no_end_of_the_producer() {
        let denied = RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
        let error = classified(
            "it",
            commit_after(RDKafkaApiKey::AddPartitionsToTxn, denied),
        );
        assert!(matches!(error, ProduceError::Abort { .. }), "{error:?}");
        assert_eq!(
            code(&error),
            Some(RDKafkaErrorCode::TopicAuthorizationFailed)
        );
    }

    /// B09: a producer that is fenced can abort nothing.
    #[test]
    fn b09_a_fenced_producer_is_at_its_end() {
        let fenced = RDKafkaRespErr::RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH;
        let error = classified("it", commit_after(RDKafkaApiKey::EndTxn, fenced));
        assert!(error.is_fatal(), "{error:?}");
    }

    /// B09: an error of which nothing is said, neither that the call can be made again nor that the transaction can be aborted, is the producer's end: who
    /// aborts after it takes an outcome for known that is not.
    #[test]
    fn b09_an_error_of_an_unknown_class_is_the_end_of_the_producer() {
        // Of librdkafka, for a call in a state that it does not expect.
        let unexpected = producer("127.0.0.1:9").begin_transaction().unwrap_err();
        let known = transaction_error(&unexpected).unwrap();
        assert!(!known.is_fatal() && !known.is_retriable() && !known.txn_requires_abort());
        assert!(classified("it", unexpected).is_fatal());
        // Of no call about a transaction at all.
        assert!(classified("it", KafkaError::Canceled).is_fatal());
        let consumer = KafkaError::ConsumerCommit(RDKafkaErrorCode::UnknownMemberId);
        assert!(classified("it", consumer).is_fatal());
    }

    /// B09: what is asked for again until there is no time left has an unknown outcome.
    #[test]
    fn b09_an_outcome_that_is_not_known_in_time_is_the_end_of_the_producer() {
        let producer = producer("127.0.0.1:9");
        let mut calls = 0;
        let until = Instant::now() + 10 * REPORTS;
        let ended = again(until, "it", |time| {
            calls += 1;
            producer.init_transactions(time.min(REPORTS))
        });
        let error = ended.unwrap_err();
        assert!(error.is_fatal(), "{error:?}");
        assert!(calls > 1, "it is asked for again");
    }
}
