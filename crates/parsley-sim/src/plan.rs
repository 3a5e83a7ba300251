//! The language in which scenarios describe a world: topics, stages, edge clients, and a script of what happens.
//!
//! A plan is data. What its stages do with a record is data too, so every protocol implementation and every host does the same, and the
//! oracle can work out what a delivery emits without asking any of them.

mod names;

use parsley_stage::{Initial, SendOrder};

/// Names a topic of a plan.
pub type TopicName = &'static str;

/// A world before its first step.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The topics that exist at the beginning.
    pub topics: Vec<TopicPlan>,
    /// The stages.
    pub stages: Vec<StagePlan>,
    /// The plain clients at the edge.
    pub edges: Vec<EdgePlan>,
    /// What happens, phase by phase. Afterwards the world is drained.
    pub script: Vec<Phase>,
    /// What holds for the whole run.
    pub rules: Rules,
}

/// A topic.
#[derive(Clone, Debug)]
pub struct TopicPlan {
    /// Its name.
    pub name: TopicName,
    /// How many partitions it has.
    pub partitions: i32,
}

/// Which code orders a stage's records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Driver {
    /// `parsley_stage::Task`, with logic, state and rounds.
    #[default]
    Task,
    /// A bare `parsley_core::Node` under a host that waits at each change of partition.
    Node,
}

/// A stage: its tasks are numbered like the partitions of its inputs.
#[derive(Clone, Debug)]
pub struct StagePlan {
    /// Its name.
    pub name: &'static str,
    /// Its declarations, one for each deployment; the first is deployed at the beginning.
    pub declarations: Vec<Declaration>,
    /// Whether its tasks start at the beginning, or when the script says so.
    pub starts_at_once: bool,
    /// Where it reads from when it first starts.
    pub initial: Initial,
    /// Which sends of a step are ordered.
    pub send_order: SendOrder,
    /// Whether it keeps a state for each key.
    pub stateful: bool,
    /// Which code runs it.
    pub driver: Driver,
    /// How many deliveries a step has at most.
    pub step_deliveries_max: usize,
}

/// What a stage is declared to be by one deployment.
#[derive(Clone, Debug, Default)]
pub struct Declaration {
    /// Its inputs and what is done with the records of each.
    pub inputs: Vec<InputPlan>,
    /// The topics that it may send to.
    pub sinks: Vec<TopicName>,
    /// The topic of its ticks, `sim-<stage>-ticks`: both an input and a sink; a tick goes to the task's own partition. What ticks emit is
    /// said of the input of that name.
    pub ticks: Option<TopicName>,
}

/// An input of a stage.
#[derive(Clone, Debug)]
pub struct InputPlan {
    /// The topic.
    pub topic: TopicName,
    /// What a record of it makes the stage emit, in this order.
    pub emits: Vec<Emit>,
}

/// One emission for one delivered record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emit {
    /// The topic.
    pub to: TopicName,
    /// The key.
    pub key: KeyRule,
    /// For which records.
    pub when: When,
}

/// The key of an emission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRule {
    /// The delivered record's.
    Same,
    /// One of so many, by the delivered record's label.
    OneOf(u64),
    /// This key.
    Fixed(u64),
}

/// For which delivered records something is emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// For each.
    Always,
    /// For one in so many, by the record's label.
    OneIn(u64),
    /// For records that have come through fewer stages than that: what damps a cycle.
    HopsBelow(u8),
}

/// A plain client at the edge of the world.
#[derive(Clone, Debug)]
pub struct EdgePlan {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub kind: EdgeKind,
    /// How many records it sends in the random phases.
    pub sends: u32,
    /// From how many keys it draws; 0: records without a key.
    pub keys: u64,
}

/// What an edge client does.
#[derive(Clone, Debug)]
pub enum EdgeKind {
    /// Sends to these topics, one record at a time, each claiming the acknowledgements of those before.
    Sequential {
        /// The topics it sends to.
        to: Vec<TopicName>,
    },
    /// Reads committed records of some topics, and claims all of them and all its own in what it sends.
    Observer {
        /// The topics it reads, all partitions.
        reads: Vec<TopicName>,
        /// The topics it sends to.
        to: Vec<TopicName>,
    },
    /// Like a sequential client, in transactions of several records that commit, abort, or stay open for long.
    Transactional {
        /// The topics it sends to.
        to: Vec<TopicName>,
        /// How many of 100 transactions abort.
        abort_percent: u64,
    },
}

/// What holds for the whole of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Whether hosts hand in watermark evidence.
    pub evidence: bool,
    /// Whether hosts report position advances.
    pub advances: bool,
    /// How many crashes the random phases may have.
    pub crashes: u32,
    /// How many ticks each task may emit.
    pub ticks: u32,
    /// How many retention sweeps the random phases may have; they stay below what every task has read and every topic's stable end.
    pub sweeps: u32,
    /// Whether tasks check log starts and drop claims below them.
    pub truncation: bool,
    /// Whether acknowledgements tell offsets.
    pub acks: Acks,
    /// How the run is to end.
    pub end: End,
}

/// What acknowledgements tell a task about its sends (decision S13).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acks {
    /// The seed decides.
    #[default]
    Either,
    /// Always the offsets: stamps name own sends by offset.
    WithOffsets,
    /// Never an offset: stamps name own sends by sequence.
    WithoutOffsets,
}

/// How a run is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Everything delivered, nothing held.
    Drained,
    /// The stage's task is refused with this code, at the latest while draining; all others drain.
    Refused {
        /// The stage.
        stage: &'static str,
        /// The guard's code, `vc-positions-lost` for example.
        code: &'static str,
    },
    /// The stage ends with exactly one head held, for one sequence claim on this topic.
    Wedged {
        /// The stage.
        stage: &'static str,
        /// The claimed topic.
        on: TopicName,
    },
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            evidence: true,
            advances: true,
            crashes: 0,
            ticks: 0,
            sweeps: 0,
            truncation: false,
            acks: Acks::Either,
            end: End::Drained,
        }
    }
}

/// Something durable of a task that can be lost apart from the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durable {
    /// The group's committed positions.
    Positions,
    /// The state: what orders its records, and its logic's.
    State,
    /// The first held record of the state, and nothing else.
    HeldRecord,
}

/// A part of the script.
#[derive(Clone, Debug, PartialEq)]
pub enum Phase {
    /// So many random actions, or fewer when nothing is left to do.
    Random(u32),
    /// The world comes to rest: everything readable is read, nothing crashes, no edge client sends.
    Settle,
    /// An edge client sends so many records, to its topics in turn.
    Send(&'static str, u32),
    /// An edge client sends one record to a topic, without a key (partition 0).
    SendTo(&'static str, TopicName),
    /// An edge client sends one record to a topic with a clock that nobody can read, on partition 0.
    SendCorrupt(&'static str, TopicName),
    /// An edge client begins a transaction, sends one record to a topic in it, and leaves it open.
    LeaveOpen(&'static str, TopicName),
    /// An edge client commits (`true`) or aborts the transaction that it left open.
    Decide(&'static str, bool),
    /// The committed positions of the stage's tasks, which do not run, are moved back by so many offsets, or forward by a negative number.
    Rewind(&'static str, i64),
    /// Something durable of the stage's tasks, which do not run, is lost.
    Forget(&'static str, Durable),
    /// An edge client reads all that is committed.
    Read(&'static str),
    /// The stage's tasks start.
    Start(&'static str),
    /// The stage's tasks stop between two steps.
    Stop(&'static str),
    /// The stage is deployed with its declaration of this number; it stops and starts again.
    Deploy(&'static str, usize),
    /// One step of the stage's task 0 that reads only this topic, to its end.
    ReadOnly(&'static str, TopicName),
    /// The same of the stage's task of this partition.
    ReadOnlyAt(&'static str, i32, TopicName),
    /// The stage's tasks crash.
    Crash(&'static str),
    /// Retention removes the topic's records, all partitions, up to the end.
    SweepAll(TopicName),
    /// Retention removes the topic's records below an offset, on partition 0.
    SweepBelow(TopicName, i64),
    /// The topic is deleted.
    Delete(TopicName),
    /// The topic, which exists, does not resolve from now on.
    Hide(TopicName),
    /// The topic is created again with its old partition count.
    Recreate(TopicName),
    /// The stage's tasks check log starts and deletions.
    Check(&'static str),
    /// As many idle moments pass as it takes until what was learned before may be used.
    Age,
    /// The stage's tasks ask for watermarks and get the answer at once.
    Evidence(&'static str),
    /// The stage's tasks make the next of three moves: take a mark, ask for watermarks, hand the answer in.
    EvidenceMove(&'static str),
    /// The stage's tasks emit a tick each.
    Tick(&'static str),
    /// One step of the stage's task 0 that reads only this topic, to its end, and ticks behind so many deliveries.
    TickAmong(&'static str, TopicName, usize),
    /// From now on no transaction marker is written to the topic.
    StallMarkers(TopicName),
    /// Markers reach the topic again.
    ResumeMarkers(TopicName),
}

impl Rules {
    /// The stage has to be refused with that code; everything else is as usual.
    pub fn until_refused(stage: &'static str, code: &'static str) -> Self {
        Self {
            end: End::Refused { stage, code },
            ..Self::default()
        }
    }
}

impl StagePlan {
    /// A stateless stage of that name with one declaration, which starts at once.
    pub fn new(name: &'static str, declaration: Declaration) -> Self {
        Self {
            name,
            declarations: vec![declaration],
            starts_at_once: true,
            initial: Initial::Earliest,
            send_order: SendOrder::PerKey,
            stateful: false,
            driver: Driver::Task,
            step_deliveries_max: 1000,
        }
    }

    /// Adds a declaration for a later deployment.
    pub fn then(mut self, declaration: Declaration) -> Self {
        self.declarations.push(declaration);
        self
    }

    /// It starts when the script says so.
    pub fn late(mut self) -> Self {
        self.starts_at_once = false;
        self
    }

    /// It keeps a state for each key.
    pub fn stateful(mut self) -> Self {
        self.stateful = true;
        self
    }

    /// A bare node runs it.
    pub fn bare(mut self) -> Self {
        self.driver = Driver::Node;
        self
    }

    /// It reads only what is appended from its first start on.
    pub fn from_the_end(mut self) -> Self {
        self.initial = Initial::Latest;
        self
    }

    /// Sends of a step are ordered within each delivery alone.
    pub fn per_delivery(mut self) -> Self {
        self.send_order = SendOrder::PerDelivery;
        self
    }

    /// A step has at most so many deliveries.
    pub fn steps_of(mut self, deliveries: usize) -> Self {
        self.step_deliveries_max = deliveries;
        self
    }
}

impl Declaration {
    /// Consumes these topics and emits nothing.
    pub fn reads(topics: &[TopicName]) -> Self {
        let inputs = topics.iter().map(|&topic| InputPlan {
            topic,
            emits: Vec::new(),
        });
        Self {
            inputs: inputs.collect(),
            ..Self::default()
        }
    }

    /// Adds an input and what its records emit; the sinks follow from that.
    pub fn on(mut self, topic: TopicName, emits: &[Emit]) -> Self {
        for emit in emits {
            if !self.sinks.contains(&emit.to) {
                self.sinks.push(emit.to);
            }
        }
        self.inputs.push(InputPlan {
            topic,
            emits: emits.to_vec(),
        });
        self
    }

    /// Declares a sink that nothing is emitted to.
    pub fn quiet_sink(mut self, topic: TopicName) -> Self {
        if !self.sinks.contains(&topic) {
            self.sinks.push(topic);
        }
        self
    }

    /// Ticks to this topic.
    pub fn ticking(mut self, topic: TopicName) -> Self {
        self.ticks = Some(topic);
        self
    }

    /// All topics that it consumes, the tick topic included.
    pub fn consumed(&self) -> impl Iterator<Item = TopicName> {
        self.inputs
            .iter()
            .map(|input| input.topic)
            .chain(self.ticks)
    }

    /// All topics that it sends to, the tick topic included.
    pub fn produced(&self) -> impl Iterator<Item = TopicName> {
        self.sinks.iter().copied().chain(self.ticks)
    }
}

impl Emit {
    /// One record to the topic for each delivered one, under its key.
    pub fn to(to: TopicName) -> Self {
        Self {
            to,
            key: KeyRule::Same,
            when: When::Always,
        }
    }

    /// Only for one in so many records.
    pub fn one_in(mut self, n: u64) -> Self {
        self.when = When::OneIn(n);
        self
    }

    /// Only for records that came through fewer stages than that.
    pub fn while_hops_below(mut self, hops: u8) -> Self {
        self.when = When::HopsBelow(hops);
        self
    }

    /// Under one of so many keys.
    pub fn keyed(mut self, keys: u64) -> Self {
        self.key = KeyRule::OneOf(keys);
        self
    }

    /// Under this key.
    pub fn under(mut self, key: u64) -> Self {
        self.key = KeyRule::Fixed(key);
        self
    }
}

impl EdgePlan {
    /// A sequential client without keys.
    pub fn sequential(name: &'static str, to: &[TopicName], sends: u32) -> Self {
        Self {
            name,
            kind: EdgeKind::Sequential { to: to.to_vec() },
            sends,
            keys: 0,
        }
    }

    /// A client that reads and writes.
    pub fn observer(name: &'static str, reads: &[TopicName], to: &[TopicName], sends: u32) -> Self {
        Self {
            name,
            kind: EdgeKind::Observer {
                reads: reads.to_vec(),
                to: to.to_vec(),
            },
            sends,
            keys: 0,
        }
    }

    /// A client that sends in transactions.
    pub fn transactional(
        name: &'static str,
        to: &[TopicName],
        sends: u32,
        abort_percent: u64,
    ) -> Self {
        Self {
            name,
            kind: EdgeKind::Transactional {
                to: to.to_vec(),
                abort_percent,
            },
            sends,
            keys: 0,
        }
    }

    /// Draws keys from so many.
    pub fn keyed(mut self, keys: u64) -> Self {
        self.keys = keys;
        self
    }

    /// The topics it sends to.
    pub fn to(&self) -> &[TopicName] {
        match &self.kind {
            EdgeKind::Sequential { to }
            | EdgeKind::Observer { to, .. }
            | EdgeKind::Transactional { to, .. } => to,
        }
    }
}

/// Topics of one partition each.
pub fn topics(names: &[TopicName]) -> Vec<TopicPlan> {
    partitioned(names, 1)
}

/// Topics of so many partitions each.
pub fn partitioned(names: &[TopicName], partitions: i32) -> Vec<TopicPlan> {
    let topic = |&name| TopicPlan { name, partitions };
    names.iter().map(topic).collect()
}
