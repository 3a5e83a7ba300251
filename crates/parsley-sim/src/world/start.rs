//! Starting a task, and what the oracle takes from its host as given: which channels are consumed, and from where.

use std::collections::BTreeSet;

use parsley_core::{Channel, Offset};
use parsley_stage::Initial;

use super::{ChannelState, Life, Rule, Violation, World};
use crate::host::{ConformanceHost, Started, TaskNo};
use crate::trace::Kind;

impl<H: ConformanceHost> World<H> {
    /// Starts a task from committed state.
    pub(super) fn start_task(&mut self, task: usize) -> Result<(), Violation> {
        let started = match self.host.start(TaskNo(task), self.moment()) {
            Ok(started) => started,
            Err(stop) => return self.conclude(task, Err(stop)),
        };
        self.counts.starts += 1;
        self.counts.restores_with_holds += u64::from(started.restored > 0);
        self.counts.joins_seeded += started.seeded;
        self.counts.open_over_a_start +=
            u64::from(self.edges.iter().any(|edge| edge.transaction.is_some()));
        let actor = self.tasks[task].actor;
        let restored = started.restored;
        self.tell(Some(actor), |_| Some(Kind::Started { restored }));
        self.check_consumed(task, &started)?;
        let consumed: Vec<_> = started
            .consumed
            .iter()
            .map(|&(channel, _)| channel)
            .collect();
        let before = std::mem::replace(&mut self.tasks[task].consumed, consumed);
        for channel in before {
            if !self.tasks[task].consumed.contains(&channel)
                && let Some(number) = self.number_of(channel)
            {
                self.oracle
                    .stop_consuming(actor, self.channels[number].oracle);
                self.tasks[task].fed.forget(channel);
            }
        }
        for (channel, baseline) in started.consumed {
            if let Some(number) = self.number_of(channel) {
                let known = &self.channels[number];
                self.oracle.consume(actor, known.oracle, baseline);
                if self.is_tick_topic(task, known.topic) {
                    self.oracle.ticks_on(actor, known.oracle);
                }
            }
        }
        self.tasks[task].has_started = true;
        self.tasks[task].life = Life::Running;
        self.conclude(task, Ok(()))
    }

    /// The oracle owes a task what it consumes, from where the host says on. So a host must not get away with consuming less than is
    /// declared, nor with beginning behind a record that the task's delivered past does not cover.
    fn check_consumed(&self, task: usize, started: &Started) -> Result<(), Violation> {
        let wrong = |text| Err(self.task_violation(task, Rule::WrongStart, text));
        let declared = self.declared_channels(task);
        let consumed = started.consumed.iter().map(|&(channel, _)| channel);
        let consumed: BTreeSet<Channel> = consumed.collect();
        if let Some(channel) = declared.symmetric_difference(&consumed).next() {
            let (is, name) = (consumed.contains(channel), self.channel_name(*channel));
            let text = if is { "not declared" } else { "not consumed" };
            return wrong(format!("{name} is {text}"));
        }
        for &(channel, baseline) in &started.consumed {
            if self.tasks[task].consumed.contains(&channel) {
                continue;
            }
            if let Some(skipped) = self.skipped_before(task, channel, baseline) {
                let name = self.channel_name(channel);
                return wrong(format!(
                    "begins {name} at {baseline}, past {skipped}, which nothing delivered to it covers"
                ));
            }
        }
        Ok(())
    }

    /// The channels that a task has to consume as it is deployed now.
    fn declared_channels(&self, task: usize) -> BTreeSet<Channel> {
        let at = self.tasks[task].at;
        let channel = |name| {
            let topic = self.topics.get(name).filter(|topic| topic.exists)?;
            let number = topic.channels.get(usize::try_from(at.partition).ok()?)?;
            Some(self.channels[*number].channel)
        };
        let names = self.stages[at.stage].declaration.consumed();
        names.filter_map(channel).collect()
    }

    /// The first record that a task which begins a channel at `baseline` passes over without a reason.
    fn skipped_before(&self, task: usize, channel: Channel, baseline: Offset) -> Option<Offset> {
        let number = self.number_of(channel)?;
        let ends = self.host.ends(channel)?;
        let stage = &self.plan.stages[self.tasks[task].at.stage];
        let from = match stage.initial {
            Initial::Latest if !self.tasks[task].has_started => ends.last_stable,
            _ => ends.log_start.max(self.covered(task, number)),
        };
        (from..baseline).find(|&offset| {
            let record = self.oracle.record_at(self.channels[number].oracle, offset);
            // What is undecided yet may become a record.
            record.is_some_and(|record| {
                offset >= ends.last_stable || self.oracle.is_committed(record)
            })
        })
    }

    /// One past what a task's delivered past claims on a channel (`docs/protocol.md`, Scope changes), at most. Claims by sequence, and what a
    /// sink of its own left behind, cover the channel to its end.
    fn covered(&self, task: usize, number: usize) -> Offset {
        let ChannelState { channel, topic, .. } = self.channels[number];
        let end = self.host.ends(channel).map_or(0, |ends| ends.end);
        let state = &self.tasks[task];
        let mut declarations = self.plan.stages[state.at.stage].declarations.iter();
        if declarations.any(|declaration| declaration.produced().any(|sink| sink == topic)) {
            return end;
        }
        let mut covered = 0;
        for &input in self.oracle.inputs(state.actor) {
            let Some((on, offset)) = self.oracle.coordinate(input) else {
                continue;
            };
            // The world and the oracle count channels alike.
            let on = on.index();
            if on == number {
                covered = covered.max(offset + 1);
            }
            let Some(clock) = self.channels[on].clocks.get(&offset) else {
                continue;
            };
            if clock
                .sequences()
                .iter()
                .any(|claim| claim.channel == channel)
            {
                return end;
            }
            let claims = clock.offsets().iter();
            let on_channel = claims.filter(|claim| claim.channel == channel);
            covered = on_channel.fold(covered, |covered, claim| covered.max(claim.offset + 1));
        }
        covered
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::plan::{Declaration, EdgePlan, Emit, Phase, Plan, Rules, StagePlan, topics};
    use crate::run::Request;
    use crate::{Action, Sabotage, TaskHost};

    const JOINER: usize = 0;
    const LATECOMER: usize = 2;
    const TAIL: usize = 3;

    /// `relay` takes `a` to `b`. `joiner` reads `b`, and `a` too once it is deployed anew. The others read `b`, and never start.
    fn world(script: &[Phase]) -> World<TaskHost> {
        let joiner = StagePlan::new("joiner", Declaration::reads(&["b"]))
            .then(Declaration::reads(&["a", "b"]));
        let relay = Declaration::default().on("a", &[Emit::to("b")]);
        let reader = |name| StagePlan::new(name, Declaration::reads(&["b"])).late();
        let plan = Arc::new(Plan {
            topics: topics(&["a", "b"]),
            stages: vec![
                joiner,
                StagePlan::new("relay", relay),
                reader("latecomer"),
                reader("tail").from_the_end(),
            ],
            edges: vec![EdgePlan::sequential("edge", &["a"], 0)],
            script: Vec::new(),
            rules: Rules::default(),
        });
        let setting = Request::setting(0, &plan);
        let host = TaskHost::sabotaged(setting, Sabotage::None);
        let mut world = World::new(plan, setting, host, None).expect("the plan can be deployed");
        for phase in script {
            let done = world.act(&Action::Script(phase.clone()));
            assert_eq!(done, Ok(()));
        }
        world
    }

    /// What is said of a start that consumes these topics from these positions on.
    fn verdict(world: &World<TaskHost>, task: usize, baselines: &[(&str, Offset)]) -> Option<Rule> {
        let consumed = baselines.iter().map(|&(name, baseline)| {
            let number = world.topics[name].channels[0];
            (world.channels[number].channel, baseline)
        });
        let started = Started {
            consumed: consumed.collect(),
            ..Started::default()
        };
        let found = world.check_consumed(task, &started);
        found.err().map(|violation| violation.rule)
    }

    #[test]
    fn a_task_consumes_what_is_declared() {
        let world = world(&[]);
        let said = |baselines: &[(&str, Offset)]| verdict(&world, JOINER, baselines);
        assert_eq!(said(&[("b", 0)]), None);
        assert_eq!(said(&[]), Some(Rule::WrongStart));
        assert_eq!(said(&[("a", 0), ("b", 0)]), Some(Rule::WrongStart));
    }

    /// One record of `a` was relayed and delivered, so `joiner` knows of it; two more nobody has read.
    #[test]
    fn a_channel_that_joins_begins_behind_what_the_delivered_past_covers_and_no_further() {
        let mut world = world(&[
            Phase::Send("edge", 1),
            Phase::Settle,
            Phase::Stop("relay"),
            Phase::Send("edge", 2),
            Phase::Deploy("joiner", 1),
        ]);
        let a = world.channels[world.topics["a"].channels[0]].channel;
        world.tasks[JOINER].consumed.retain(|&channel| channel != a);
        let joins_at = |baseline| verdict(&world, JOINER, &[("a", baseline), ("b", 0)]);
        assert_eq!(joins_at(0), None);
        assert_eq!(joins_at(1), None);
        assert_eq!(joins_at(2), Some(Rule::WrongStart));
    }

    #[test]
    fn a_first_start_begins_where_it_is_declared_to() {
        let world = world(&[Phase::Send("edge", 2), Phase::Settle]);
        assert_eq!(verdict(&world, LATECOMER, &[("b", 0)]), None);
        assert_eq!(
            verdict(&world, LATECOMER, &[("b", 1)]),
            Some(Rule::WrongStart)
        );
        assert_eq!(verdict(&world, TAIL, &[("b", 2)]), None);
    }

    /// A restart would make good whatever it was.
    #[test]
    fn an_execution_that_ends_by_itself_is_at_fault_unless_a_sink_of_it_is_gone() {
        const RELAY: usize = 1;
        let ended = |world: &mut World<TaskHost>| {
            let outcome = world.conclude(RELAY, Err(crate::host::Stop::Crashed));
            outcome.err().map(|violation| violation.rule)
        };
        assert_eq!(ended(&mut world(&[])), Some(Rule::HostFailed));
        assert_eq!(ended(&mut world(&[Phase::Delete("b")])), None);
    }
}
