//! A world: a plan, a host, the oracle, and everything that can happen to them, one action at a time.
//!
//! The world chooses and judges; the host acts. Whatever the host reports goes to the oracle first (`observe.rs`).

mod act;
mod choices;
mod digest;
mod drain;
mod draw;
mod edge;
mod observe;
mod positions;
mod script;
mod start;
mod ticks;
mod violation;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parsley_core::{Channel, Clock, Offset};
use parsley_oracle::{Actor, Channel as OracleChannel, Emission, Oracle, SendOrder};

use crate::count::Counts;
use crate::host::{
    ConformanceHost, CrashPoint, CrashSwitch, Deployment, Event, Move, Setting, TaskAt, TaskNo,
};
use crate::logic;
use crate::payload::Payload;
use crate::plan::{Driver, Phase, Plan, StagePlan, TopicName};
use crate::trace::{self, At, Trace};

pub(crate) use choices::{Allowed, Sight};
use edge::Edge;
use positions::Fed;
pub use violation::{Rule, Violation};

/// One thing that happens. A run is a list of them; left out some, the rest still makes a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// A step of a task.
    Step {
        /// The task's number.
        task: usize,
        /// Per channel of the world: how many records at most, and whether the position is reported.
        reads: Vec<(usize, usize, bool)>,
        /// Behind how many deliveries it ticks, if it does.
        tick: Option<usize>,
        /// Where it is cut off.
        crash: Option<CrashPoint>,
    },
    /// The next send of a task in the middle of a step is appended to that channel.
    Append(usize, usize),
    /// The replicas of a channel catch up.
    Replicate(usize),
    /// A task's sends are acknowledged: its next round, or its commit.
    Proceed(usize),
    /// A pending marker of that channel is written: the one of this number among them.
    Marker(usize, usize),
    /// A task's process ends.
    Crash(usize),
    /// A task starts again.
    Start(usize),
    /// A task's next move in asking for watermarks.
    Evidence(usize),
    /// A task checks log starts and deletions.
    Check(usize),
    /// An edge client sends a record to the topic of this number among its own, under a key.
    Send(usize, usize, Option<u64>),
    /// An edge client reads some records of a channel.
    Read(usize, usize),
    /// An edge client ends its transaction; `true` commits.
    End(usize, bool),
    /// Retention removes records of a channel below an offset.
    Sweep(usize, Offset),
    /// A phase of the script.
    Script(Phase),
}

/// A topic's newest incarnation.
struct TopicState {
    partitions: i32,
    exists: bool,
    /// How often it was created before.
    incarnation: u32,
    /// The world's numbers of its channels.
    channels: Vec<usize>,
}

/// A channel, once created never forgotten.
struct ChannelState {
    channel: Channel,
    topic: TopicName,
    name: String,
    oracle: OracleChannel,
    exists: bool,
    /// What was appended, by offset.
    content: Vec<Option<Content>>,
    /// The clocks of what was appended with one, by offset.
    clocks: BTreeMap<Offset, Clock>,
}

#[derive(Clone, Copy)]
struct Content {
    key: Option<u64>,
    payload: Payload,
}

/// Whether a task runs, or may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Running,
    /// It crashed, or has not been started yet: it may be started at any time.
    Down,
    /// The script has stopped it, or has not started it.
    Stopped,
    /// A guard has stopped it.
    Refused,
}

struct TaskState {
    at: TaskAt,
    actor: Actor,
    life: Life,
    /// An execution of it began once.
    has_started: bool,
    consumed: Vec<Channel>,
    /// How many ticks it emitted, those of steps that were given up among them.
    ticks: u32,
    /// How many of them the open step has.
    step_ticks: u64,
    /// How many ticks it was delivered: committed, and with the open step.
    ticks_delivered: (u64, u64),
    /// The emissions of the open step that were not appended yet, by label.
    staged: Vec<(u64, Emission)>,
    /// The next send sequence by channel: committed, and with the open step.
    sequences: BTreeMap<Channel, (i64, i64)>,
    /// The sends of the open step: channel, send sequence, offset.
    open_sends: Vec<(Channel, i64, Offset)>,
    /// The open step has sent to this channel first.
    first_sent_to: Option<Channel>,
    /// How many records it held when it went down last.
    held_when_down: u64,
    /// What it was fed.
    fed: Fed,
    /// How many deliveries the open step has.
    step_deliveries: usize,
    /// The open step has done something that an abort takes back.
    in_step: bool,
    /// How often each key was delivered: committed, and with the open step.
    delivered_by_key: BTreeMap<Option<u64>, (u64, u64)>,
    /// What was held when a trace last told, by channel.
    told_holds: BTreeMap<Channel, (Offset, String)>,
}

/// A world: a plan on a host, what can happen to them next, and the oracle that judges it.
pub struct World<H> {
    plan: Arc<Plan>,
    setting: Setting,
    host: H,
    oracle: Oracle,
    stages: Vec<Deployment>,
    topics: BTreeMap<TopicName, TopicState>,
    channels: Vec<ChannelState>,
    numbers: BTreeMap<Channel, usize>,
    tasks: Vec<TaskState>,
    edges: Vec<Edge>,
    crashes_left: u32,
    sweeps_left: u32,
    /// Tasks and channels that they do not read for now, in random phases.
    lagging: BTreeSet<(usize, usize)>,
    /// Channels that no marker reaches for now.
    stalled: BTreeSet<usize>,
    now: u64,
    /// Hosts and records are told of one moment only, whatever happens.
    timeless: bool,
    counts: Counts,
    trace: Option<Trace>,
    events: Vec<Event>,
}

impl<H: ConformanceHost> World<H> {
    /// The world of a plan on a host. `trace`: what happens is recorded.
    ///
    /// # Errors
    ///
    /// When the plan declares a stage that cannot be or names something that it does not have, or a task cannot start.
    pub fn new(
        plan: Arc<Plan>,
        setting: Setting,
        host: H,
        trace: Option<(&str, u64)>,
    ) -> Result<Self, Violation> {
        let mut world = Self {
            setting,
            host,
            oracle: Oracle::new(),
            stages: Vec::new(),
            topics: BTreeMap::new(),
            channels: Vec::new(),
            numbers: BTreeMap::new(),
            tasks: Vec::new(),
            edges: Vec::new(),
            crashes_left: plan.rules.crashes,
            sweeps_left: plan.rules.sweeps,
            lagging: BTreeSet::new(),
            stalled: BTreeSet::new(),
            now: 0,
            timeless: false,
            counts: Counts::default(),
            trace: trace.map(|(scenario, seed)| Trace::of(scenario, seed)),
            events: Vec::new(),
            plan: Arc::clone(&plan),
        };
        if let Some(misnomer) = plan.misnomer() {
            return Err(world.violation(Rule::HostFailed, format!("the plan: {misnomer}")));
        }
        for topic in &plan.topics {
            world.create_topic(topic.name, topic.partitions);
        }
        for (number, stage) in plan.stages.iter().enumerate() {
            world.add_stage(number, stage)?;
        }
        for (number, edge) in plan.edges.iter().enumerate() {
            let actor = world.add_actor(edge.name.to_owned(), SendOrder::Sequential);
            world.edges.push(Edge::new(number, actor, edge.sends));
        }
        for task in 0..world.tasks.len() {
            if world.tasks[task].life == Life::Down {
                world.start_task(task)?;
            }
        }
        Ok(world)
    }

    /// From now on hosts and records are told of one moment only, so that worlds in which the same has happened in another order are the same.
    pub(crate) fn stop_time(&mut self) {
        self.timeless = true;
    }

    /// The time as hosts and records have it.
    fn moment(&self) -> u64 {
        if self.timeless { 0 } else { self.now }
    }

    /// What happened so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The record of what happened.
    pub fn into_trace(self) -> Option<Trace> {
        self.trace
    }

    /// The host.
    pub fn host(&self) -> &H {
        &self.host
    }

    fn add_actor(&mut self, name: String, order: SendOrder) -> Actor {
        let actor = self.oracle.add_actor(&name, order);
        if let Some(trace) = &mut self.trace {
            trace.actors.push(name);
        }
        actor
    }

    fn add_stage(&mut self, number: usize, stage: &StagePlan) -> Result<(), Violation> {
        let deployment = self.deployment(number, stage, 0)?;
        let consumed = stage
            .declarations
            .iter()
            .flat_map(|declaration| declaration.consumed());
        let partitions = consumed
            .filter_map(|name| Some(self.topics.get(name)?.partitions))
            .max()
            .unwrap_or(1);
        let order = match stage.driver {
            Driver::Node if H::runs_bare_nodes() => SendOrder::Sequential,
            _ => match stage.send_order {
                parsley_stage::SendOrder::PerKey => SendOrder::PerKey {
                    null_is_key: stage.stateful,
                },
                parsley_stage::SendOrder::PerDelivery => SendOrder::PerDelivery,
            },
        };
        let life = if stage.starts_at_once {
            Life::Down
        } else {
            Life::Stopped
        };
        let mut numbered = Vec::new();
        for partition in 0..partitions {
            let name = format!("{}/{partition}", stage.name);
            let actor = self.add_actor(name, order);
            numbered.push((TaskNo(self.tasks.len()), partition));
            self.tasks.push(TaskState {
                at: TaskAt {
                    stage: number,
                    partition,
                },
                actor,
                life,
                has_started: false,
                consumed: Vec::new(),
                ticks: 0,
                step_ticks: 0,
                ticks_delivered: (0, 0),
                staged: Vec::new(),
                sequences: BTreeMap::new(),
                open_sends: Vec::new(),
                first_sent_to: None,
                held_when_down: 0,
                fed: Fed::default(),
                step_deliveries: 0,
                in_step: false,
                delivered_by_key: BTreeMap::new(),
                told_holds: BTreeMap::new(),
            });
        }
        self.host.deploy(&deployment, &numbered);
        self.stages.push(deployment);
        Ok(())
    }

    fn deployment(
        &self,
        number: usize,
        stage: &StagePlan,
        declaration: usize,
    ) -> Result<Deployment, Violation> {
        let failed = |text: String| self.violation(Rule::HostFailed, text);
        let declaration = stage
            .declarations
            .get(declaration)
            .ok_or_else(|| failed(format!("stage {} has no such declaration", stage.name)))?;
        let declaration = Arc::new(declaration.clone());
        let switch = CrashSwitch::default();
        // A bare node has no stage of its own; what it would be serves to fill the place.
        let built = logic::build(stage, number, &declaration, &switch)
            .map_err(|error| failed(error.to_string()))?;
        Ok(Deployment {
            stage: number,
            plan: Arc::new(stage.clone()),
            declaration,
            built,
            switch,
        })
    }

    fn create_topic(&mut self, name: TopicName, partitions: i32) {
        let id = self.host.create_topic(name, partitions);
        let incarnation = self
            .topics
            .get(name)
            .map_or(0, |topic| topic.incarnation + 1);
        let mut numbers = Vec::new();
        for partition in 0..partitions {
            let channel = id.partition(partition);
            let name_of_channel = match incarnation {
                0 => format!("{name}:{partition}"),
                _ => format!("{name}'{incarnation}:{partition}"),
            };
            let number = self.channels.len();
            numbers.push(number);
            self.numbers.insert(channel, number);
            if let Some(trace) = &mut self.trace {
                trace.channels.push(name_of_channel.clone());
            }
            self.channels.push(ChannelState {
                channel,
                topic: name,
                oracle: self.oracle.add_channel(&name_of_channel),
                name: name_of_channel,
                exists: true,
                content: Vec::new(),
                clocks: BTreeMap::new(),
            });
        }
        self.topics.insert(
            name,
            TopicState {
                partitions,
                exists: true,
                incarnation,
                channels: numbers,
            },
        );
    }

    fn channel_name(&self, channel: Channel) -> String {
        match self.number_of(channel) {
            Some(number) => self.channels[number].name.clone(),
            None => channel.to_string(),
        }
    }

    fn number_of(&self, channel: Channel) -> Option<usize> {
        self.numbers.get(&channel).copied()
    }

    /// What the log, and tasks in the middle of a step, can do by themselves, but for markers that are stalled.
    fn moves(&self) -> Vec<Move> {
        let mut moves = Vec::new();
        self.host.moves(&mut moves);
        moves.retain(|made| match made {
            Move::Marker(_, channel) => self
                .number_of(*channel)
                .is_none_or(|number| !self.stalled.contains(&number)),
            _ => true,
        });
        moves
    }

    fn at(&self, channel: Channel, offset: Offset) -> Option<At> {
        let channel = self.number_of(channel)?;
        Some(At { channel, offset })
    }

    fn stage_number(&self, name: &str) -> Option<usize> {
        self.plan.stages.iter().position(|stage| stage.name == name)
    }

    fn edge_number(&self, name: &str) -> Option<usize> {
        self.plan.edges.iter().position(|edge| edge.name == name)
    }

    fn tasks_of(&self, stage: usize) -> Vec<usize> {
        (0..self.tasks.len())
            .filter(|&task| self.tasks[task].at.stage == stage)
            .collect()
    }

    fn task_name(&self, task: usize) -> String {
        let at = self.tasks[task].at;
        format!("{}/{}", self.plan.stages[at.stage].name, at.partition)
    }

    fn violation(&self, rule: Rule, text: String) -> Violation {
        Violation {
            rule,
            text: text.into(),
            step: self.now,
            actor: None,
            record: None,
            other: None,
            path: Box::default(),
        }
    }

    /// Records an event, if anyone wants to know.
    fn tell(&mut self, actor: Option<Actor>, kind: impl FnOnce(&Self) -> Option<trace::Kind>) {
        if self.trace.is_none() {
            return;
        }
        let Some(kind) = kind(self) else { return };
        let event = trace::Event {
            step: self.now,
            actor: actor.map(Actor::index),
            kind,
        };
        if let Some(trace) = &mut self.trace {
            trace.events.push(event);
        }
    }

    fn note(&mut self, actor: Option<Actor>, text: impl FnOnce() -> String) {
        self.tell(actor, |_| Some(trace::Kind::Note(text())));
    }
}
