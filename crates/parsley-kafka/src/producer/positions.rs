//! Sending positions, with an end to the wait for it (decision K44).

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parsley_core::Offset;
use rdkafka::consumer::ConsumerGroupMetadata;
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseProducer, Producer};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{Offset as KafkaOffset, TopicPartitionList};

use super::Context;

/// How much longer than its time a call is waited for: where a broker has refused, librdkafka looks at the time half a second after that, and says what it
/// was refused for.
const GRACE: Duration = Duration::from_secs(2);

/// One call.
struct Call {
    positions: Vec<(String, i32, Offset)>,
    group: Arc<ConsumerGroupMetadata>,
    time: Duration,
}

/// The thread that makes a producer's calls. librdkafka does not keep to the time that it is given for these (its issues 5456 and 5511): where the
/// group's coordinator has gone, the call may end when that is back, or never. What has not ended in time is left to the thread, which keeps the
/// client alive for as long as the call lasts; dropping this waits for it otherwise.
pub(super) struct Positions {
    calls: Option<Sender<Call>>,
    outcomes: Receiver<Result<(), KafkaError>>,
    thread: Option<JoinHandle<()>>,
    is_left: bool,
}

impl Positions {
    pub(super) fn begin(producer: &Arc<BaseProducer<Context>>) -> Result<Self, KafkaError> {
        let (calls, asked) = channel::<Call>();
        let (told, outcomes) = channel();
        let producer = Arc::clone(producer);
        let thread = std::thread::Builder::new()
            .name("positions".to_owned())
            .spawn(move || {
                for call in asked {
                    let mut list = TopicPartitionList::new();
                    for (topic, partition, offset) in &call.positions {
                        // No position of a task is negative, so the list takes each.
                        let offset = KafkaOffset::Offset(*offset);
                        let _ = list.add_partition_offset(topic, *partition, offset);
                    }
                    let sent = producer.send_offsets_to_transaction(&list, &call.group, call.time);
                    if told.send(sent).is_err() {
                        break;
                    }
                }
            })
            .map_err(|error| KafkaError::ClientCreation(format!("no thread: {error}")))?;
        Ok(Self {
            calls: Some(calls),
            outcomes,
            thread: Some(thread),
            is_left: false,
        })
    }

    /// Sends positions, which librdkafka is given `time` for. What has not ended a moment after `until` is a time-out, and the producer is not to be used
    /// for anything after it.
    pub(super) fn send(
        &mut self,
        positions: &[(&str, i32, Offset)],
        group: &Arc<ConsumerGroupMetadata>,
        time: Duration,
        until: Instant,
    ) -> Result<(), KafkaError> {
        let wait = time.max(until.saturating_duration_since(Instant::now())) + GRACE;
        let owned = |&(topic, partition, offset): &(&str, i32, Offset)| {
            (topic.to_owned(), partition, offset)
        };
        let call = Call {
            positions: positions.iter().map(owned).collect(),
            group: Arc::clone(group),
            time,
        };
        let calls = self.calls.as_ref().filter(|_| !self.is_left);
        if calls.is_some_and(|calls| calls.send(call).is_ok())
            && let Ok(sent) = self.outcomes.recv_timeout(wait)
        {
            return sent;
        }
        self.is_left = true;
        Err(KafkaError::ConsumerCommit(
            RDKafkaErrorCode::OperationTimedOut,
        ))
    }

    /// Whether a call has not ended in time.
    pub(super) fn is_left(&self) -> bool {
        self.is_left
    }
}

impl Drop for Positions {
    fn drop(&mut self) {
        self.calls = None;
        if let (Some(thread), false) = (self.thread.take(), self.is_left) {
            // It makes no call, and does not panic.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;

    use parsley_core::TopicId;
    use rdkafka::config::ClientConfig;
    use rdkafka::consumer::{BaseConsumer, Consumer};
    use rdkafka::mocking::{MockCluster, MockCoordinator};

    use super::*;
    use crate::config::KafkaConfig;
    use crate::producer::{ProduceError, Producer as Transactional, Send};

    const BOUND: Duration = Duration::from_secs(60);

    fn wait_until(what: &str, is_reached: impl Fn() -> bool) {
        let until = Instant::now() + BOUND;
        while !is_reached() {
            assert!(Instant::now() < until, "{what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A worker had committed what its opening wrote, step by step, while the broker that coordinated its group was ended, and was asked to stop. It told
    /// nothing from then on, and was given up after 40 s: it sent positions. librdkafka asks the group's coordinator, waits for that without looking at
    /// the time that it was given, and where the coordinator has left the cluster it is not even reminded to ask who is the next. So not only a stop
    /// waited: the worker did nothing more until some connection came or went, whatever it was asked. A call that has not ended by its step's deadline is
    /// not waited for any longer now, and its producer not asked for anything else, nor is its end waited for; it is released when the call ends.
    #[test]
    fn positions_that_no_coordinator_takes_are_given_up_with_their_producer() {
        let cluster = MockCluster::new(2).unwrap();
        cluster.create_topic("t", 1, 2).unwrap();
        cluster.partition_leader("t", 0, Some(1)).unwrap();
        let at = |coordinator, broker| cluster.coordinator(coordinator, broker).unwrap();
        at(MockCoordinator::Transaction("id".to_owned()), 1);
        at(MockCoordinator::Group("group".to_owned()), 2);
        let dir = tempfile::tempdir().unwrap();
        let config = KafkaConfig::new(cluster.bootstrap_servers(), dir.path());
        let mut producer = Transactional::new(&config, "id", None).unwrap();
        let topic = TopicId::of_name("t").partition(0);
        let value = "v".into();
        let send = Send {
            topic: "t",
            partition: 0,
            key: None,
            value: Some(&value),
            timestamp_ms: None,
            headers: &[],
        };
        producer.send(0, topic, &send).unwrap();
        producer.flush(Instant::now() + BOUND, || false).unwrap();
        let member: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", cluster.bootstrap_servers())
            .set("group.id", "group")
            .create()
            .unwrap();
        let group = Arc::new(member.group_metadata().unwrap());
        cluster.broker_down(2).unwrap();
        let client: Weak<BaseProducer<Context>> = Arc::downgrade(&producer.producer);

        let given_up = std::thread::spawn(move || {
            let until = Instant::now() + Duration::from_secs(1);
            let sent = producer.send_positions(&[("t", 0, 1)], &group, until);
            let again = producer.send_positions(&[("t", 0, 1)], &group, until);
            let aborted = producer.abort(Instant::now() + BOUND);
            [sent, again, aborted]
        });
        wait_until("it is given up", || given_up.is_finished());
        for outcome in given_up.join().unwrap() {
            let error = outcome.unwrap_err();
            assert!(matches!(error, ProduceError::Fatal { .. }), "{error:?}");
            assert_eq!(error.code(), Some(RDKafkaErrorCode::OperationTimedOut));
        }
        assert!(client.upgrade().is_some(), "the call goes on");
        cluster.broker_up(2).unwrap();
        wait_until("the client is released", || client.upgrade().is_none());
    }

    /// What is answered is handed on as it is, call after call, and nothing is left of a producer that is dropped.
    #[test]
    fn positions_are_sent_step_by_step() {
        let cluster = MockCluster::new(1).unwrap();
        cluster.create_topic("t", 1, 1).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let config = KafkaConfig::new(cluster.bootstrap_servers(), dir.path());
        let mut producer = Transactional::new(&config, "id", None).unwrap();
        let member: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", cluster.bootstrap_servers())
            .set("group.id", "group")
            .create()
            .unwrap();
        let group = Arc::new(member.group_metadata().unwrap());
        let until = || Instant::now() + BOUND;
        for step in 1..=3 {
            producer.begin().unwrap();
            producer
                .send_positions(&[("t", 0, step)], &group, until())
                .unwrap();
            producer.commit(until()).unwrap();
        }
        producer.begin().unwrap();
        let denied = rdkafka::types::RDKafkaRespErr::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED;
        cluster.request_errors(rdkafka::types::RDKafkaApiKey::TxnOffsetCommit, &[denied]);
        let refused = producer.send_positions(&[("t", 0, 4)], &group, until());
        let error = refused.unwrap_err();
        assert!(matches!(error, ProduceError::Abort { .. }), "{error:?}");
        assert_eq!(
            error.code(),
            Some(RDKafkaErrorCode::GroupAuthorizationFailed)
        );
        producer.abort(until()).unwrap();
        let client = Arc::downgrade(&producer.producer);
        drop(producer);
        assert!(client.upgrade().is_none());
    }
}
