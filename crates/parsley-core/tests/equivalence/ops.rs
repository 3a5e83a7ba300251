//! The operations of a random script, and their node-script lines.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::model::{Channel, Fetched, OpenLine, Sender, Topic, Truncation, topic_of, uuid_text};

/// One operation. Each carries all it needs, so that a script from which some are left out is still a script.
#[derive(Clone, Debug)]
pub enum Op {
    /// Initialise. `window` bounds what a node keeps of each channel in memory.
    Open {
        line: OpenLine,
        window: usize,
    },
    /// Initialise over a copy of the committed store with these keys set or removed, and compare how that ends.
    OpenEdited {
        line: OpenLine,
        edits: BTreeMap<String, Option<Vec<u8>>>,
    },
    /// Feed a record and deliver nothing yet.
    Feed {
        on: Channel,
        fetched: Fetched,
    },
    Position {
        on: Channel,
        next: i64,
    },
    /// Pull deliveries: all, or so many at most.
    Drain {
        most: Option<usize>,
    },
    Send {
        to: Channel,
    },
    Fence {
        acks: BTreeMap<Channel, i64>,
    },
    Commit {
        acks: BTreeMap<Channel, i64>,
    },
    Abort,
    Stop,
    /// Takes a mark and keeps it beside the earlier ones of this execution.
    Mark,
    /// Evidence as of the mark so numbered, or as of now.
    Watermarks {
        mark: Option<usize>,
        watermarks: BTreeMap<Channel, i64>,
    },
    Truncate(Truncation),
}

impl Op {
    pub fn stands_in_a_step(&self) -> bool {
        matches!(
            self,
            Op::Feed { .. }
                | Op::Position { .. }
                | Op::Drain { .. }
                | Op::Send { .. }
                | Op::Fence { .. }
        )
    }

    pub fn stands_outside_a_step(&self) -> bool {
        matches!(self, Op::Mark | Op::Watermarks { .. } | Op::Truncate(_))
    }

    pub fn ends_a_step(&self) -> bool {
        matches!(
            self,
            Op::Open { .. } | Op::Commit { .. } | Op::Abort | Op::Stop
        )
    }
}

/// Topics of a script by name.
#[derive(Clone, Debug, Default)]
pub struct Names(pub Vec<(String, Topic)>);

impl Names {
    pub fn channel(&self, on: Channel) -> String {
        format!("{}:{}", self.topic(topic_of(on)), on.2)
    }

    pub fn topic(&self, topic: Topic) -> String {
        let known = self.0.iter().find(|(_, named)| *named == topic);
        known.map_or_else(|| uuid_text(topic), |(name, _)| name.clone())
    }

    fn offsets(&self, map: &BTreeMap<Channel, i64>) -> Value {
        map.iter()
            .map(|(&on, &at)| (self.channel(on), json!(at)))
            .collect::<Map<_, _>>()
            .into()
    }

    fn topics(&self, topics: &BTreeSet<Topic>) -> Value {
        topics
            .iter()
            .map(|&topic| json!(self.topic(topic)))
            .collect()
    }

    fn open(&self, line: &OpenLine) -> Value {
        let topics: Map<String, Value> = self
            .0
            .iter()
            .map(|(name, topic)| (name.clone(), json!(uuid_text(*topic))))
            .collect();
        let partitions: Map<String, Value> = line
            .sinks
            .iter()
            .map(|(&topic, &count)| (self.topic(topic), json!(count)))
            .collect();
        json!({"open": {
            "name": line.name,
            "inputs": line.inputs.iter().map(|&on| self.channel(on)).collect::<Vec<_>>(),
            "sinks": line.sinks.keys().map(|&topic| self.topic(topic)).collect::<Vec<_>>(),
            "partitions": partitions,
            "topics": topics,
            "start": self.offsets(&line.start),
            "ends": self.offsets(&line.ends),
            "log_starts": self.offsets(&line.log_starts),
            "deleted": self.topics(&line.deleted),
        }})
    }

    fn record(&self, on: Channel, fetched: &Fetched) -> Value {
        let text = |bytes: &Option<Vec<u8>>| {
            bytes
                .as_ref()
                .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        };
        let mut body = json!({
            "on": self.channel(on),
            "offset": fetched.offset,
            "timestamp": fetched.timestamp,
            "key": text(&fetched.key),
            "value": text(&fetched.value),
        });
        let mut headers = Map::new();
        for (name, value) in &fetched.headers {
            match (name.as_str(), value) {
                ("vc", Some(value)) => body["clock_hex"] = json!(hex::encode(value)),
                ("vc-sender", Some(value)) if value.len() == 16 => {
                    let half = |from: usize| {
                        i64::from_be_bytes(value[from..from + 8].try_into().expect("8 bytes"))
                    };
                    body["sender"] = json!(uuid_text((half(0), half(8)) as Sender));
                }
                ("vc-seq", Some(value)) if value.len() == 8 => {
                    body["sequence"] =
                        json!(i64::from_be_bytes(value[..].try_into().expect("8 bytes")));
                }
                _ => drop(headers.insert(name.clone(), json!(text(value)))),
            }
        }
        if !headers.is_empty() {
            body["headers"] = headers.into();
        }
        json!({"record": body})
    }

    /// The script as lines for `parsley node -`. What the format cannot say stands in comments.
    pub fn script(&self, ops: &[Op]) -> String {
        let mut lines = Vec::new();
        let mut in_step = false;
        for op in ops {
            if op.stands_in_a_step() && !in_step {
                lines.push(json!({"begin": {}}).to_string());
                in_step = true;
            }
            let line = match op {
                Op::Open { line, window } => {
                    if line.group_has_positions {
                        lines.push("# the group has committed positions".to_owned());
                    }
                    lines.push(format!("# window {window}"));
                    for &topic in &line.unresolved {
                        lines.push(format!("# {} does not resolve", self.topic(topic)));
                    }
                    self.open(line)
                }
                Op::OpenEdited { line, edits } => {
                    lines.push(format!(
                        "# over a copy of the store with {edits:?}: {}",
                        self.open(line)
                    ));
                    continue;
                }
                Op::Feed { on, fetched } => self.record(*on, fetched),
                Op::Position { on, next } => {
                    json!({"position": {"on": self.channel(*on), "next": next}})
                }
                Op::Drain { most } => {
                    lines.push(match most {
                        None => "# deliver all".to_owned(),
                        Some(most) => format!("# deliver at most {most}"),
                    });
                    continue;
                }
                Op::Send { to } => json!({"send": {"to": self.channel(*to)}}),
                Op::Fence { acks } => json!({"fence": self.offsets(acks)}),
                Op::Commit { acks } => {
                    if !in_step {
                        lines.push("# commit".to_owned());
                        continue;
                    }
                    in_step = false;
                    json!({"commit": self.offsets(acks)})
                }
                Op::Abort => {
                    in_step = false;
                    json!({"abort": {}})
                }
                Op::Stop => {
                    in_step = false;
                    json!({"stop": {}})
                }
                Op::Mark => json!({"mark": {}}),
                Op::Watermarks { mark, watermarks } => {
                    lines.push(match mark {
                        None => "# as of now".to_owned(),
                        Some(mark) => {
                            format!("# as of mark {mark} of this execution, counted from 0")
                        }
                    });
                    json!({"watermarks": self.offsets(watermarks)})
                }
                Op::Truncate(truncation) => json!({"truncate": {
                    "log_starts": self.offsets(&truncation.log_starts),
                    "gone": self.topics(&truncation.gone),
                    "drop_below": self.offsets(&truncation.drop_below),
                    "drop_gone": self.topics(&truncation.drop_gone),
                }}),
            };
            lines.push(line.to_string());
        }
        lines.join("\n") + "\n"
    }
}
