//! Plain clients beside the stages, on a broker: what they have seen comes before what they send.

use std::sync::{Arc, Mutex};

use parsley_kafka::EdgeTopics;
use parsley_kafka::edge::{EdgeError, VerifyError, headers_of, stamped};
use parsley_stage::CausalClock;
use parsley_stage::edge::StampError;
use rdkafka::client::{Client, ClientContext};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{
    BorrowedMessage, DeliveryResult, Header as KafkaHeader, Message, OwnedHeaders,
};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use rdkafka::{Offset, TopicPartitionList};

use crate::joining::*;
use crate::world::*;

/// What a producer has seen, by its delivery reports.
struct Reports {
    topics: Mutex<EdgeTopics>,
    seen: Mutex<CausalClock>,
    taken: Mutex<Vec<Result<i64, EdgeError>>>,
}

impl ClientContext for Reports {}

impl ProducerContext for Reports {
    type DeliveryOpaque = ();

    fn delivery(&self, report: &DeliveryResult<'_>, (): ()) {
        let message: &BorrowedMessage<'_> = report.as_ref().map_err(|(error, _)| error).unwrap();
        let (mut topics, mut seen) = (self.topics.lock().unwrap(), self.seen.lock().unwrap());
        let taken = topics.acknowledged(&mut seen, message);
        self.taken
            .lock()
            .unwrap()
            .push(taken.map(|()| message.offset()));
    }
}

/// A producer that takes up what it sends.
struct EdgeClient(ThreadedProducer<Reports>);

impl EdgeClient {
    fn of(topics: EdgeTopics, seen: CausalClock) -> Self {
        let context = Reports {
            topics: Mutex::new(topics),
            seen: Mutex::new(seen),
            taken: Mutex::default(),
        };
        Self(client().create_with_context(context).unwrap())
    }

    fn reports(&self) -> &Arc<Reports> {
        self.0.context()
    }

    fn seen(&self) -> CausalClock {
        self.reports().seen.lock().unwrap().clone()
    }

    fn send(&self, topic: &str, value: &str) {
        let headers = headers_of(&self.seen()).unwrap();
        let record = BaseRecord::to(topic)
            .key("k")
            .payload(value)
            .headers(headers);
        self.0.send(record).map_err(|(error, _)| error).unwrap();
        self.0.flush(BOUND).unwrap();
    }
}

fn resolve<C: ClientContext>(asker: &Client<C>, names: &[&str]) -> EdgeTopics {
    EdgeTopics::resolve(asker, names, BOUND).unwrap()
}

/// A plain consumer that is at the beginning of a partition.
fn consumer_of(topic: &str) -> BaseConsumer {
    let consumer: BaseConsumer = client()
        .set("group.id", "edge")
        .set("enable.auto.commit", "false")
        .set("isolation.level", "read_uncommitted")
        .set("fetch.wait.max.ms", "20")
        .create()
        .unwrap();
    rewind(&consumer, topic);
    consumer
}

fn rewind(consumer: &BaseConsumer, topic: &str) {
    let mut assignment = TopicPartitionList::new();
    assignment
        .add_partition_offset(topic, 0, Offset::Beginning)
        .unwrap();
    consumer.assign(&assignment).unwrap();
}

fn next(consumer: &BaseConsumer) -> BorrowedMessage<'_> {
    let message: Option<Result<_, KafkaError>> = consumer.poll(BOUND);
    message.expect("a message").unwrap()
}

/// Somebody writes to `a` in a transaction, which a client reads while it is open; it writes to `b`. The stage is not fed the cause before the commit: it holds
/// the effect until then if the client says what it has read, and does not if it does not.
#[test]
fn an_effect_is_held_until_what_its_client_had_read_is_delivered() {
    for (name, says_so) in [("edge-says", true), ("edge-silent", false)] {
        let [a, b, out] = joining_topics(name);
        let dir = tempfile::tempdir().unwrap();
        let running = start(config(&dir), &joining(name));
        wait_for_tasks(&running, 1);
        let writer = Foreign::transactional(name);
        writer.begin();
        writer.append(&a, To::Key, &[("k", "cause")]);

        let reader = consumer_of(&a);
        let topics = resolve(reader.client(), &[&a, &b]);
        let (mut own, mut seen) = (topics.clone(), CausalClock::new());
        let message = next(&reader);
        own.observe(&mut seen, &message).unwrap();
        assert_eq!(seen.claims().offset(channel(&a, 0)), Some(0));
        let mut again = CausalClock::new();
        let detached = message.detach();
        topics.clone().observe(&mut again, &detached).unwrap();
        assert_eq!(again, seen, "an owned message is the same");

        let says = if says_so {
            seen.clone()
        } else {
            CausalClock::new()
        };
        let client = EdgeClient::of(topics, says);
        client.send(&b, "effect");
        let effect = client.seen();
        let mut alone = CausalClock::new();
        let at = channel(&b, 0);
        alone.record_produced(at.topic, at.partition, 0).unwrap();
        if says_so {
            // What was fetched and is held is not covered, nor what was not fetched.
            wait_until_held(&running, 1);
            let status = running.status();
            let task = status.task("join", 0).unwrap();
            assert!(!task.covers(&alone) && !task.covers(&seen), "{task:?}");
            assert!(task.covers(&CausalClock::new()));
        } else {
            wait_for(&running, "covered", |status| {
                status.task("join", 0).unwrap().covers(&alone)
            });
        }
        writer.commit();
        wait_for(&running, "covered", |status| {
            let task = status.task("join", 0).unwrap();
            task.covers(&effect) && task.covers(&seen)
        });
        let status = running.status();
        assert_eq!(status.delivered(), 2);
        assert!(status.task("join", 1).is_none());
        stop(&running);
        let expected = if says_so {
            ["cause", "effect"]
        } else {
            ["effect", "cause"]
        };
        assert_eq!(values(&out), expected, "{name}");
        check_stamps(&out, name, "join", 1);
    }
}

/// Of a topic that was made again offsets begin anew, which is told before anything is claimed on the one that is gone; who rewinds by himself is told the same, and
/// goes on once the cluster has said that nothing changed.
#[test]
fn a_topic_made_again_is_not_claimed_on() {
    let topic = "edge-again";
    create_topic(topic, 1);
    let consumer = consumer_of(topic);
    let mut topics = resolve(consumer.client(), &[topic, topic]);
    let client = EdgeClient::of(topics.clone(), CausalClock::new());
    for value in ["1", "2", "3"] {
        client.send(topic, value);
    }
    let was = channel(topic, 0);
    assert_eq!(client.seen().claims().offset(was), Some(2));

    let mut seen = CausalClock::new();
    for _ in 0..3 {
        topics.observe(&mut seen, &next(&consumer)).unwrap();
    }
    assert_eq!(seen, client.seen());
    rewind(&consumer, topic);
    let message = next(&consumer);
    let went_back = EdgeError::WentBack {
        topic: topic.to_owned(),
        partition: 0,
        offset: 0,
        last: 2,
    };
    assert_eq!(topics.observe(&mut seen, &message), Err(went_back.clone()));
    topics.verify(consumer.client(), BOUND).unwrap();
    topics.observe(&mut seen, &message).unwrap();
    assert_eq!(seen, client.seen());
    drop(message);

    make_again(topic);
    let is = channel(topic, 0);
    client.send(topic, "4");
    let taken = client.reports().taken.lock().unwrap().clone();
    assert_eq!(taken[..3], [Ok(0), Ok(1), Ok(2)]);
    assert_eq!(taken[3], Err(went_back));
    assert_eq!(
        client.seen(),
        seen,
        "nothing is claimed of the new topic under the old one's name"
    );
    let made_again = VerifyError::MadeAgain {
        topic: topic.to_owned(),
        was: was.topic,
        is: is.topic,
    };
    assert_eq!(
        topics.verify(consumer.client(), BOUND).unwrap_err(),
        made_again
    );

    // As the error says: forgotten, and resolved anew.
    seen.forget_topic(was.topic);
    let mut topics = resolve(consumer.client(), &[topic]);
    topics.produced(&mut seen, topic, 0, 0).unwrap();
    assert_eq!(seen.claims().offset(is), Some(0));
    assert_eq!(seen.claims().width(), 1);
}

/// What is taken up and what is stamped, without a broker's part in it.
#[test]
fn what_a_client_did_not_resolve_or_may_not_stamp_is_refused() {
    let topic = "edge-refused";
    create_topic(topic, 1);
    let consumer = consumer_of(topic);
    let mut topics = resolve(consumer.client(), &[topic]);
    assert_eq!(topics.topic(topic).unwrap().partitions, 1);
    let mut seen = CausalClock::new();
    let unresolved = EdgeError::Unresolved {
        topic: "elsewhere".to_owned(),
    };
    assert_eq!(
        topics.produced(&mut seen, "elsewhere", 0, 0),
        Err(unresolved)
    );
    let unacknowledged = topics.produced(&mut seen, topic, 0, -1001).unwrap_err();
    assert!(matches!(unacknowledged, EdgeError::Produced(_)));
    assert!(seen.is_empty());

    let trace = |key| KafkaHeader {
        key,
        value: Some("7"),
    };
    let copied = OwnedHeaders::new()
        .insert(trace("trace"))
        .insert(trace("vc-seq"));
    let refused = stamped(&seen, copied).unwrap_err();
    assert!(matches!(refused, StampError::Reserved { name } if name == "vc-seq"));

    // What stops a stage (G1) is no claim of a client.
    let headers = [parsley_core::Header::new("vc", "no clock")];
    Foreign::plain().append_with(topic, To::Partition(0), ("k", "v"), &headers);
    let refused = topics.observe(&mut seen, &next(&consumer)).unwrap_err();
    assert!(matches!(refused, EdgeError::Observe(_)), "{refused}");
    assert!(seen.is_empty());
}
