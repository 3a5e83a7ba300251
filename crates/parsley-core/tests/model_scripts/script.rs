//! Node scripts: a line in, lines out, with the model as the node.

use base64::prelude::{BASE64_STANDARD, Engine};
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use parsley_model::{
    Channel, Clock, Delivery, Event, Fetched, Mark, Model, OpenLine, Refused, Topic, Truncation,
    Wait, channel, named, parse_uuid, topic_of, uuid_text,
};

/// The model and what a script adds to it: names, the open step, the mark.
#[derive(Default)]
pub struct Script {
    pub model: Model,
    topics: BTreeMap<String, Topic>,
    in_step: bool,
    /// The last unused mark, if its execution still runs; `Some(None)` when that has ended.
    mark: Option<Option<Mark>>,
}

impl Script {
    /// Runs one line; the lines it prints. After a refusal the model no longer runs.
    pub fn line(&mut self, line: &Value) -> Vec<Value> {
        let (name, body) = line
            .as_object()
            .and_then(|line| line.iter().next())
            .expect("a line names one operation");
        let mut out = Vec::new();
        if let Err(refused) = self.operate(name, body, &mut out) {
            out.push(self.refused_line(&refused));
            self.in_step = false;
        }
        out
    }

    fn operate(&mut self, name: &str, body: &Value, out: &mut Vec<Value>) -> Result<(), Refused> {
        match name {
            "open" => self.open(body, out)?,
            "record" => {
                let on = self.channel(&body["on"]);
                let fetched = self.fetched(body);
                for event in self.model.record(on, &fetched)? {
                    out.push(match event {
                        Event::Dropped { on, offset } => {
                            json!({"dropped": {"on": self.name(on), "offset": offset}})
                        }
                        Event::Delivered(delivery) => self.delivered_line(&delivery),
                    });
                }
            }
            "position" => {
                let on = self.channel(&body["on"]);
                self.model
                    .position(on, body["next"].as_i64().expect("a position"))?;
            }
            "send" => {
                let to = self.channel(&body["to"]);
                let stamp = self.model.send(to)?;
                out.push(json!({"stamp": {
                    "to": self.name(to),
                    "sequence": stamp.sequence,
                    "clock": self.clock_json(&stamp.clock),
                    "hex": hex::encode(&stamp.bytes),
                }}));
            }
            "fence" => {
                let acks = self.offsets(body);
                self.model.fence(&acks);
                return Ok(());
            }
            "begin" => {
                self.in_step = true;
                return Ok(());
            }
            "commit" => {
                let acks = self.offsets(body);
                self.model.commit(&acks);
                self.in_step = false;
                return Ok(());
            }
            "abort" => {
                self.model.abort();
                self.in_step = false;
                return Ok(());
            }
            "stop" => {
                self.model.stop();
                self.in_step = false;
                return Ok(());
            }
            "mark" => self.mark = Some(Some(self.model.mark())),
            "watermarks" => {
                let watermarks = self.offsets(body);
                // A mark of an earlier execution is used up and says nothing.
                if let Some(mark) = self.mark.take().unwrap_or_else(|| Some(self.model.mark())) {
                    self.model.watermarks(&mark, &watermarks);
                }
            }
            "truncate" => {
                let truncation = Truncation {
                    log_starts: self.offsets(&body["log_starts"]),
                    gone: self.topics(&body["gone"]),
                    drop_below: self.offsets(&body["drop_below"]),
                    drop_gone: self.topics(&body["drop_gone"]),
                };
                self.model.truncate(&truncation)?;
            }
            "holds" => out.push(self.holds_line()),
            "store" => {
                let store = self.model.store().iter();
                let entries: Vec<Value> = store
                    .map(|(key, value)| json!([key, hex::encode(value)]))
                    .collect();
                out.push(json!({"store": entries}));
            }
            other => panic!("unknown operation {other}"),
        }
        for delivery in self.model.drain() {
            out.push(self.delivered_line(&delivery));
        }
        if !self.in_step {
            self.model.commit(&BTreeMap::new());
        }
        Ok(())
    }

    fn open(&mut self, body: &Value, out: &mut Vec<Value>) -> Result<(), Refused> {
        for (name, uuid) in body["topics"].as_object().into_iter().flatten() {
            let topic = parse_uuid(uuid.as_str().expect("a UUID")).expect("a UUID");
            self.topics.insert(name.clone(), topic);
        }
        let inputs = body["inputs"]
            .as_array()
            .expect("inputs")
            .iter()
            .map(|on| self.channel(on))
            .collect();
        let mut sinks = BTreeMap::new();
        for name in body["sinks"].as_array().into_iter().flatten() {
            let name = name.as_str().expect("a sink");
            let partitions = body["partitions"][name].as_i64().unwrap_or(0);
            sinks.insert(
                self.topic(name),
                i32::try_from(partitions).expect("a partition count"),
            );
        }
        let line = OpenLine {
            name: body["name"].as_str().expect("a name").to_owned(),
            inputs,
            sinks,
            start: self.offsets(&body["start"]),
            ends: self.offsets(&body["ends"]),
            log_starts: self.offsets(&body["log_starts"]),
            deleted: self.topics(&body["deleted"]),
            ..OpenLine::default()
        };
        self.mark = self.mark.take().map(|_| None);
        let opened = self.model.open(&line)?;
        let resume: Map<String, Value> = opened
            .resume
            .iter()
            .map(|(&on, &offset)| (self.name(on), json!(offset)))
            .collect();
        out.push(json!({"opened": {"resume": resume}}));
        Ok(())
    }

    fn topic(&mut self, name: &str) -> Topic {
        *self
            .topics
            .entry(name.to_owned())
            .or_insert_with(|| named(name))
    }

    fn channel(&mut self, text: &Value) -> Channel {
        let (topic, partition) = text
            .as_str()
            .expect("a channel")
            .rsplit_once(':')
            .expect("topic:partition");
        channel(self.topic(topic), partition.parse().expect("a partition"))
    }

    fn topics(&mut self, names: &Value) -> BTreeSet<Topic> {
        let names = names.as_array().into_iter().flatten();
        names
            .map(|name| self.topic(name.as_str().expect("a topic")))
            .collect()
    }

    fn offsets(&mut self, map: &Value) -> BTreeMap<Channel, i64> {
        let entries = map.as_object().into_iter().flatten();
        entries
            .map(|(on, at)| (self.channel(&json!(on)), at.as_i64().expect("an offset")))
            .collect()
    }

    fn name(&self, on: Channel) -> String {
        let known = self
            .topics
            .iter()
            .find(|(_, topic)| **topic == topic_of(on));
        let topic = known.map_or_else(|| uuid_text(topic_of(on)), |(name, _)| name.clone());
        format!("{topic}:{}", on.2)
    }

    fn fetched(&mut self, body: &Value) -> Fetched {
        let text = |value: &Value| value.as_str().map(|text| text.as_bytes().to_vec());
        let mut headers = Vec::new();
        if let Some(raw) = body["clock_hex"].as_str() {
            headers.push(("vc".to_owned(), Some(hex::decode(raw).expect("hex"))));
        } else if body["clock"].is_object() {
            let clock = self.clock(&body["clock"]);
            headers.push(("vc".to_owned(), Some(clock.encode())));
        }
        if let Some(sender) = body["sender"].as_str() {
            let (msb, lsb) = parse_uuid(sender).unwrap_or_else(|| named(sender));
            headers.push((
                "vc-sender".to_owned(),
                Some([msb.to_be_bytes(), lsb.to_be_bytes()].concat()),
            ));
        }
        if let Some(sequence) = body["sequence"].as_i64() {
            headers.push(("vc-seq".to_owned(), Some(sequence.to_be_bytes().to_vec())));
        }
        for (name, value) in body["headers"].as_object().into_iter().flatten() {
            headers.push((name.clone(), text(value)));
        }
        Fetched {
            offset: body["offset"].as_i64().expect("an offset"),
            timestamp: body["timestamp"].as_i64().unwrap_or(0),
            key: text(&body["key"]),
            value: text(&body["value"]).or_else(|| {
                let encoded = body["value_b64"].as_str()?;
                Some(BASE64_STANDARD.decode(encoded).expect("base64"))
            }),
            headers,
        }
    }

    fn clock(&mut self, body: &Value) -> Clock {
        let mut clock = Clock {
            offsets: self.offsets(&body["offsets"]),
            ..Clock::default()
        };
        for entry in body["sequences"].as_array().into_iter().flatten() {
            let on = self.channel(&entry[0]);
            let sender = entry[1].as_str().expect("a sender");
            let sender = parse_uuid(sender).unwrap_or_else(|| named(sender));
            clock
                .sequences
                .insert((on, sender), entry[2].as_i64().expect("a sequence"));
        }
        clock
    }

    fn clock_json(&self, clock: &Clock) -> Value {
        let offsets: Map<String, Value> = clock
            .offsets
            .iter()
            .map(|(&on, &offset)| (self.name(on), json!(offset)))
            .collect();
        let sequences = clock.sequences.iter();
        let sequences: Vec<Value> = sequences
            .map(|(&(on, sender), &number)| json!([self.name(on), uuid_text(sender), number]))
            .collect();
        json!({"offsets": offsets, "sequences": sequences})
    }

    fn delivered_line(&self, delivery: &Delivery) -> Value {
        let text = |bytes: &Option<Vec<u8>>| {
            bytes
                .as_ref()
                .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        };
        let mut line = json!({
            "on": self.name(delivery.on),
            "offset": delivery.record.offset,
            "key": text(&delivery.record.key),
        });
        match &delivery.record.value {
            Some(bytes) if std::str::from_utf8(bytes).is_err() => {
                line["value_b64"] = json!(BASE64_STANDARD.encode(bytes));
            }
            value => line["value"] = json!(text(value)),
        }
        json!({ "delivered": line })
    }

    fn holds_line(&self) -> Value {
        let mut lines = Vec::new();
        for hold in self.model.holds() {
            let waits: Vec<Value> = hold.waits.iter().map(|wait| self.wait(wait)).collect();
            lines.push(json!({
                "on": self.name(hold.on), "offset": hold.offset, "behind": hold.behind, "waits": waits,
            }));
        }
        json!({"holds": lines})
    }

    fn wait(&self, wait: &Wait) -> Value {
        match *wait {
            Wait::Offset {
                on,
                offset,
                settled,
                code,
            } => {
                json!({"on": self.name(on), "offset": offset, "settled": settled, "code": code})
            }
            Wait::Sequence {
                on,
                sender,
                sequence,
                delivered,
                code,
            } => json!({
                "on": self.name(on), "sender": uuid_text(sender), "sequence": sequence,
                "delivered": delivered, "code": code,
            }),
        }
    }

    fn refused_line(&self, refused: &Refused) -> Value {
        let on = refused.on.map(|on| self.name(on));
        json!({"refused": {"code": refused.code, "on": on, "offset": refused.offset}})
    }
}
