//! B26: the simulator and its oracle see what they are there for.

use bytes::Bytes;
use parsley_core::{Channel, Hold, Offset, Record, TopicId};
use parsley_model::Broken;
use parsley_sim::host::{
    AppendMode, ConformanceHost, Deployment, EdgeTransaction, Ends, Event, Move, Setting, Started,
    StepPlan, Stop, TaskNo,
};
use parsley_sim::plan::{Declaration, EdgePlan, End, Phase, Plan, Rules, StagePlan, topics};
use parsley_sim::run::{Outcome, Request};
use parsley_sim::scenario::Scenario;
use parsley_sim::{Chance, HostFault, Rule, Sabotage, TaskHost};

use crate::kit::*;

#[test]
fn b26_each_sabotage_is_seen() {
    for (sabotage, scenario, seeds) in [
        // Drops every record at offset 3.
        (
            host(HostFault::DropsOffsetThree),
            "b04-fetched-is-not-handed-over",
            SEEDS,
        ),
        (
            protocol(Broken::LoseOffsetThree),
            "b04-fetched-is-not-handed-over",
            SEEDS,
        ),
        // Delivers again what is fed again.
        (
            protocol(Broken::RedeliverWhatWasFedAgain),
            "b15-positions-moved-back",
            SEEDS,
        ),
        // Settles a dead channel that holds.
        (
            protocol(Broken::IgnoreDeletedHeld),
            "p11-deleted-while-held",
            SEEDS,
        ),
        // Counts what was prefetched as settled.
        (
            host(HostFault::CountsPrefetchedAsSettled),
            "b04-fetched-is-not-handed-over",
            CAUGHT,
        ),
        // Keeps state over an abort.
        (
            host(HostFault::KeepsStateAfterAbort),
            "b03-aborted-steps",
            CAUGHT,
        ),
        (
            protocol(Broken::KeepStateAfterAbort),
            "b03-aborted-steps",
            CAUGHT,
        ),
        // Gives a sequence to two sends.
        (
            protocol(Broken::ReuseASequence),
            "p1-concurrent-sends",
            CAUGHT,
        ),
        // Feeds out of order, and appends other than what was stamped.
        (
            host(HostFault::FeedsOutOfOrder),
            "p1-concurrent-sends",
            CAUGHT,
        ),
        (
            host(HostFault::StampsBeforePartitioning),
            "p1-concurrent-sends",
            CAUGHT,
        ),
        (protocol(Broken::BreakFifo), "p1-crossed-sends", CAUGHT),
    ] {
        catches_on(scenario, sabotage, seeds);
    }
}

fn corrupt(end: End) -> Plan {
    Plan {
        topics: topics(&["x"]),
        stages: vec![StagePlan::new("n", Declaration::reads(&["x"]))],
        edges: vec![EdgePlan::sequential("e", &["x"], 0)],
        script: vec![Phase::Send("e", 1), Phase::SendCorrupt("e", "x")],
        rules: Rules {
            end,
            ..Rules::default()
        },
    }
}

fn outcome(plan: fn(&mut Chance) -> Plan) -> Outcome {
    let scenario = Scenario {
        name: "by-hand",
        about: "a run of its own",
        plan,
        floors: &[],
    };
    let request = Request {
        scenario: &scenario,
        seed: 0,
        trace: false,
    };
    request.run(Sabotage::None)
}

fn rule(outcome: Outcome) -> Option<Rule> {
    outcome.violation.map(|violation| violation.rule)
}

#[test]
fn b26_a_refusal_that_was_not_expected_fails_the_run() {
    let unexpected = outcome(|_| corrupt(End::Drained));
    let violation = unexpected.violation.as_ref().expect("a refusal");
    let expected = "n/0: vc-corrupt-clock: at x:0@1: ";
    assert!(violation.text.starts_with(expected), "{}", violation.text);
    assert_eq!(violation.actor, Some(0));
    assert_eq!(rule(unexpected), Some(Rule::UnexpectedRefusal));
    let another_code = outcome(|_| {
        corrupt(End::Refused {
            stage: "n",
            code: "vc-positions-lost",
        })
    });
    assert_eq!(rule(another_code), Some(Rule::UnexpectedRefusal));
    let expected = outcome(|_| {
        corrupt(End::Refused {
            stage: "n",
            code: "vc-corrupt-clock",
        })
    });
    assert_eq!(rule(expected), None);
}

#[test]
fn b26_a_refusal_that_was_expected_and_did_not_come_fails_the_run() {
    let missing = outcome(|_| {
        let mut plan = corrupt(End::Refused {
            stage: "n",
            code: "vc-corrupt-clock",
        });
        plan.script.pop();
        plan
    });
    let actor = missing.violation.as_ref().map(|violation| violation.actor);
    assert_eq!(actor, Some(Some(0)));
    assert_eq!(rule(missing), Some(Rule::MissingRefusal));
}

/// A task host that panics when it is asked what it holds.
struct Panics(TaskHost);

#[test]
fn b26_a_panic_fails_the_run() {
    let scenario = named("b05-two-sends-of-one-step");
    let request = Request {
        scenario,
        seed: 0,
        trace: true,
    };
    let setting = Request::setting(0, &(scenario.plan)(&mut Chance::of_seed(0)));
    let outcome = request.run_on(setting, Panics::new);
    let violation = outcome.violation.expect("a panic is no success");
    assert_eq!(violation.rule, Rule::Panicked);
    assert_eq!(violation.text, "asked what it holds".into());
}

impl ConformanceHost for Panics {
    fn holds(&self, _task: TaskNo) -> Vec<Hold> {
        panic!("asked what it holds")
    }

    fn supports(append: AppendMode) -> bool {
        TaskHost::supports(append)
    }
    fn new(setting: Setting) -> Self {
        Self(TaskHost::sabotaged(setting, Sabotage::None))
    }
    fn create_topic(&mut self, name: &str, partitions: i32) -> TopicId {
        self.0.create_topic(name, partitions)
    }
    fn delete_topic(&mut self, name: &str) {
        self.0.delete_topic(name);
    }
    fn delete_records(&mut self, channel: Channel, before: Offset) {
        self.0.delete_records(channel, before);
    }
    fn ends(&self, channel: Channel) -> Option<Ends> {
        self.0.ends(channel)
    }
    fn read(&self, channel: Channel, from: Offset, records_max: usize) -> (Vec<Record>, Offset) {
        self.0.read(channel, from, records_max)
    }
    fn begin(&mut self) -> EdgeTransaction {
        self.0.begin()
    }
    fn append(&mut self, record: Record, within: Option<EdgeTransaction>) -> Option<Offset> {
        self.0.append(record, within)
    }
    fn is_acknowledged(&self, channel: Channel, offset: Offset) -> bool {
        self.0.is_acknowledged(channel, offset)
    }
    fn end(&mut self, transaction: EdgeTransaction, commit: bool) {
        self.0.end(transaction, commit);
    }
    fn deploy(&mut self, deployment: &Deployment, tasks: &[(TaskNo, i32)]) {
        self.0.deploy(deployment, tasks);
    }
    fn start(&mut self, task: TaskNo, now: u64) -> Result<Started, Stop> {
        self.0.start(task, now)
    }
    fn step(&mut self, task: TaskNo, plan: &StepPlan, now: u64) -> Result<(), Stop> {
        self.0.step(task, plan, now)
    }
    fn crash(&mut self, task: TaskNo) {
        self.0.crash(task);
    }
    fn evidence(&mut self, task: TaskNo) -> Result<(), Stop> {
        self.0.evidence(task)
    }
    fn check(&mut self, task: TaskNo, now: u64) -> Result<(), Stop> {
        self.0.check(task, now)
    }
    fn is_in_step(&self, task: TaskNo) -> bool {
        self.0.is_in_step(task)
    }
    fn position(&self, task: TaskNo, channel: Channel) -> Option<Offset> {
        self.0.position(task, channel)
    }
    fn resumes_at(&self, task: TaskNo, channel: Channel) -> Option<Offset> {
        self.0.resumes_at(task, channel)
    }
    fn held(&self, task: TaskNo) -> u64 {
        self.0.held(task)
    }
    fn state_of(&self, task: TaskNo, key: Option<&[u8]>) -> Option<Bytes> {
        self.0.state_of(task, key)
    }
    fn wants_evidence(&self, task: TaskNo) -> bool {
        self.0.wants_evidence(task)
    }
    fn moves(&self, moves: &mut Vec<Move>) {
        self.0.moves(moves);
    }
    fn make(&mut self, made: Move, now: u64) -> Result<(), Stop> {
        self.0.make(made, now)
    }
    fn take_events(&mut self, events: &mut Vec<Event>) {
        self.0.take_events(events);
    }
}
