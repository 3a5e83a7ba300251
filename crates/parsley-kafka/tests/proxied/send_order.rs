//! Trap 13, and duty H7 (`docs/protocol.md`, Send order): librdkafka appends batches of different partitions in any order.
//!
//! `paul` sends y to c and then b to d, and b claims y; `quentin` sends z to d and then w to c, and w claims z. The leader of c is slow to take what
//! paul sends there, that of d what quentin sends. Whoever hands over a step at once has c = [w, y] and d = [b, z] then, and nobody who reads both
//! can ever go on: y is what b needs, w is in front of y, z is what w needs, and b is in front of z.

use std::sync::{Arc, Mutex};

use kafka_cluster::proxy::{Action, ApiKey, Proxy, Requests, Rule};
use parsley_core::{Channel, Clock, MemoryStore, OpenFacts, SenderId, Wait};
use parsley_kafka::KafkaHost;
use parsley_stage::report::HoldReport;
use parsley_stage::{App, RawSend, Stage, Task, TaskConfig, TopicInfo};
use rdkafka::admin::{NewTopic, TopicReplication};
use rdkafka::producer::Producer;

use crate::world::*;

/// The topics of a test: what the two stages read, and the two that they cross on, each led by another broker.
struct Topics {
    name: &'static str,
}

impl Topics {
    fn create(name: &'static str) -> Self {
        let topics = Self { name };
        for (part, broker) in [("p", 1), ("q", 1), ("c", 1), ("d", 2)] {
            let (name, leader) = (topics.of(part), [broker]);
            let placed = [&leader[..]];
            create(
                &name,
                &NewTopic::new(&name, 1, TopicReplication::Variable(&placed)),
            );
        }
        topics
    }

    fn of(&self, part: &str) -> String {
        format!("{}-{part}", self.name)
    }

    fn channel(&self, part: &str) -> Channel {
        channel(&self.of(part), 0)
    }

    /// Sends two records for each that it reads, the first of which the second claims.
    fn sender(&self, stage: &str, from: &str, first: (&str, &str), second: (&str, &str)) -> Stage {
        let topic = |part: &str| text_topic(&self.of(part));
        let (input, there, here) = (topic(from), topic(first.0), topic(second.0));
        let (before, after) = (first.1.to_owned(), second.1.to_owned());
        Stage::stateless(stage)
            .sink(&there)
            .sink(&here)
            .on(&input, move |message, out| {
                out.send(&there, &message.key, &before)?;
                out.send(&here, &message.key, &after)
            })
            .build()
            .unwrap()
    }

    fn paul(&self) -> Stage {
        self.sender("paul", "p", ("c", "y"), ("d", "b"))
    }

    fn quentin(&self) -> Stage {
        self.sender("quentin", "q", ("d", "z"), ("c", "w"))
    }

    /// Reads c and d.
    fn both(&self) -> Stage {
        let (c, d) = (text_topic(&self.of("c")), text_topic(&self.of("d")));
        Stage::stateless("both")
            .on(&c, |_, _| Ok(()))
            .on(&d, |_, _| Ok(()))
            .build()
            .unwrap()
    }

    /// What the stages' producers send to c and d: held there, or watched.
    fn sends(&self, stage: &str, part: &str, action: Action) -> Rule {
        let requests = Requests::of(ApiKey::PRODUCE)
            .to_partition(&self.of(part), 0)
            .of_transactions(&format!("{}-{stage}-", self.name));
        proxy().rule(requests, action)
    }

    fn ends(&self) -> [i64; 2] {
        ["c", "d"].map(|part| bounds(&self.of(part), 0).1)
    }

    fn values(&self) -> [Vec<String>; 2] {
        ["c", "d"].map(|part| values(&self.of(part)))
    }

    /// What the record of that value claims.
    fn clock(&self, part: &str, value: &str) -> Clock {
        let records = read(&self.of(part));
        let found = records.iter().find(|record| text(&record.value) == value);
        stamp_of(found.unwrap()).0
    }

    /// Whether the record of that value claims the first send of a stage's task to a channel by its sequence.
    fn claims_first(&self, (part, value): (&str, &str), of: &str, on: &str) -> bool {
        let sender = SenderId::of_task(self.name, of, 0);
        let clock = self.clock(part, value);
        clock.sequences().iter().any(|claim| {
            claim.sender == sender && claim.channel == self.channel(on) && claim.sequence == 0
        })
    }
}

fn proxy() -> &'static Proxy {
    broker().proxy().expect("it is proxied")
}

/// A task of a stage whose host hands over a whole step at once: it calls each round acknowledged before it is.
struct AtOnce {
    task: Task,
    producer: Foreign,
}

impl AtOnce {
    fn open(topics: &Topics, stage: Stage) -> Self {
        let id = format!("{}-{}-at-once", topics.name, stage.name());
        let channels = ["p", "q", "c", "d"].map(|part| (topics.of(part), topics.channel(part)));
        let known = channels.iter().map(|(name, channel)| {
            let info = TopicInfo {
                id: channel.topic,
                partitions: 1,
            };
            (name.clone(), info)
        });
        let config = TaskConfig::new(topics.name, 0, known.collect());
        let facts = OpenFacts {
            ends: channels.iter().map(|(_, channel)| (*channel, 0)).collect(),
            ..OpenFacts::default()
        };
        let store = || Box::new(MemoryStore::new());
        let (task, _) = Task::open(stage, config, &facts, store(), store()).unwrap();
        let producer = Foreign::transactional(&id);
        for part in ["c", "d"] {
            // Asked for when the send is held already, who leads the other partition would not be told: the question can wait behind it.
            let client = producer.0.client();
            client
                .fetch_metadata(Some(&topics.of(part)), BOUND)
                .unwrap();
        }
        Self { task, producer }
    }

    /// Delivers the record of an input, and hands over all that comes of it, in a transaction that stays open.
    fn step(&mut self, topics: &Topics, input: &str) {
        let read = read(&topics.of(input)).remove(0);
        let record = parsley_core::Record {
            channel: topics.channel(input),
            offset: read.offset,
            timestamp_ms: 0,
            key: read.key,
            value: read.value,
            headers: Vec::new(),
        };
        self.task.receive(record).unwrap();
        assert!(self.task.process_next().unwrap().is_some());
        let mut sends = self.task.take_sends();
        while self.task.has_later_rounds() {
            self.task.fence(&[]).unwrap();
            sends.extend(self.task.take_sends());
        }
        self.producer.begin();
        for RawSend {
            topic,
            channel,
            key,
            value,
            headers,
            ..
        } in &sends
        {
            let to = To::Partition(channel.partition);
            let (key, value) = (text(key), text(value));
            self.producer.send(topic, to, &key, &value, headers);
        }
        assert_eq!(sends.len(), 2);
    }
}

/// A step that is handed over at once writes what nobody can read.
#[test]
fn trap_13_without_rounds_the_contradiction_is_written() {
    let topics = Topics::create("at-once");
    let plain = Foreign::plain();
    for input in ["p", "q"] {
        plain.append(&topics.of(input), To::Key, &[("k", "v")]);
    }
    let mut paul = AtOnce::open(&topics, topics.paul());
    let mut quentin = AtOnce::open(&topics, topics.quentin());
    let y = topics.sends("paul", "c", Action::HoldRequest);
    let z = topics.sends("quentin", "d", Action::HoldRequest);
    let b = topics.sends("paul", "d", Action::Watch);
    let w = topics.sends("quentin", "c", Action::Watch);
    paul.step(&topics, "p");
    quentin.step(&topics, "q");
    for held in [&y, &z] {
        held.wait_for_arrivals(1, BOUND).unwrap();
    }
    // The second of each is in the log, and what it claims is not.
    for passed in [&b, &w] {
        passed.wait_for_answers(1, BOUND).unwrap();
    }
    assert_eq!((y.answered(), z.answered()), (0, 0));
    assert_eq!(topics.ends(), [1, 1]);
    y.release();
    z.release();
    paul.producer.commit();
    quentin.producer.commit();
    assert_eq!(topics.values(), [["w", "y"], ["b", "z"]]);
    assert!(topics.claims_first(("d", "b"), "paul", "c"));
    assert!(topics.claims_first(("c", "w"), "quentin", "d"));

    // All of it is read, each head waits for what is held behind the other, and no evidence can change that.
    let both = App::named(topics.name)
        .stage(topics.both())
        .build()
        .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let running = start(config(&dir), &both);
    wait_for(&running, "held, with nothing left to read", |status| {
        status
            .tasks()
            .any(|(.., task)| task.held == 4 && task.lag == 0 && task.holds.len() == 2)
    });
    let steps = || running.status().tasks().map(|(.., task)| task.steps).sum();
    let before: u64 = steps();
    wait_for(&running, "asked for high watermarks, twice", |_| {
        steps() >= before + 2
    });
    let status = running.status();
    let (.., task) = status.tasks().next().unwrap();
    assert_eq!((task.delivered, task.held), (0, 4), "{task:#?}");
    let crossed = |from: &str, to: &str| {
        let from = topics.channel(from);
        let holds = task.holds.iter().map(HoldReport::to_hold);
        let hold = { holds }.find(|hold| hold.channel == from);
        let hold = hold.expect("its head is held");
        let on_other = |wait: &Wait| wait.channel() == topics.channel(to);
        let waits_for_other = !hold.waits.is_empty() && hold.waits.iter().all(on_other);
        hold.offset == 0 && hold.behind > 0 && waits_for_other
    };
    assert!(crossed("c", "d") && crossed("d", "c"), "{task:#?}");
    stop(&running);
}

/// The same stages on the host, and the same leaders are slow: the second send is not handed over before the first is acknowledged, so it comes
/// to stand later and claims the first one's very offset; whoever reads both goes on.
#[test]
fn trap_13_with_rounds_the_contradiction_cannot_be_written() {
    let topics = Topics::create("by-rounds");
    let name = topics.name;
    let app = App::named(name)
        .stage(topics.paul())
        .stage(topics.quentin())
        .stage(topics.both())
        .build()
        .unwrap();
    let y = topics.sends("paul", "c", Action::HoldRequest);
    let z = topics.sends("quentin", "d", Action::HoldRequest);
    let b = topics.sends("paul", "d", Action::Watch);
    let w = topics.sends("quentin", "c", Action::Watch);
    let heartbeats = Requests::of(ApiKey::HEARTBEAT).of_client(name);
    let dir = tempfile::tempdir().unwrap();
    let config = config(&dir)
        .property("client.id", name)
        // Longer than what is held is held.
        .transaction_timeout(BOUND);
    let seen: Arc<Mutex<Vec<(String, i64)>>> = Arc::default();
    let host = KafkaHost::new(config).unwrap().on_delivery({
        let seen = Arc::clone(&seen);
        move |event| {
            if &*event.stage == "both" {
                let place = (event.topic.to_string(), event.offset);
                seen.lock().unwrap().push(place);
            }
        }
    });
    let running = host.start(&app).unwrap();
    wait_for_tasks(&running, 3);
    let plain = Foreign::plain();
    for input in ["p", "q"] {
        plain.append(&topics.of(input), To::Key, &[("k", "v")]);
    }
    for held in [&y, &z] {
        held.wait_for_arrivals(1, BOUND).unwrap();
    }
    // There is time: other requests go and are answered.
    let heartbeats = proxy().rule(heartbeats, Action::Watch);
    heartbeats.wait_for_answers(30, BOUND).unwrap();
    assert_eq!((b.arrived(), w.arrived()), (0, 0));
    assert_eq!(topics.ends(), [0, 0]);
    // Markers would come in between.
    let ends = Requests::of(ApiKey::END_TXN).of_transactions(&format!("{name}-paul-"));
    let ends = proxy().rule(ends, Action::HoldRequest);
    y.release();
    b.wait_for_answers(1, BOUND).unwrap();
    assert_eq!((topics.ends(), w.arrived()), ([1, 1], 0));
    z.release();
    w.wait_for_answers(1, BOUND).unwrap();
    ends.release();
    wait_for(&running, "all delivered", |status| {
        let delivered = status.tasks().map(|(stage, _, task)| match stage {
            "both" => task.delivered,
            _ => 0,
        });
        delivered.sum::<u64>() == 4
    });
    stop(&running);
    assert_eq!(topics.values(), [["y", "w"], ["b", "z"]]);
    for ((part, value), (on, expected)) in [(("d", "b"), ("c", 0)), (("c", "w"), ("d", 1))] {
        let clock = topics.clock(part, value);
        assert!(clock.sequences().is_empty(), "{clock:?}");
        assert_eq!(clock.offset(topics.channel(on)), Some(expected), "{value}");
    }
    let seen = seen.lock().unwrap();
    let place = |part: &str, offset: i64| {
        let place = (topics.of(part), offset);
        seen.iter().position(|seen| *seen == place).unwrap()
    };
    assert!(place("c", 0) < place("d", 0), "y before b: {seen:?}");
    assert!(place("d", 1) < place("c", 1), "z before w: {seen:?}");
}
