//! Whether a plan names only what it has. A script that names nothing would do nothing, and its world would hold all the same.

use crate::host::APPLICATION;

use super::{EdgeKind, EdgePlan, End, Phase, Plan, TopicName};

/// What a phase names.
#[derive(Default)]
struct Named {
    stage: Option<&'static str>,
    edge: Option<&'static str>,
    topic: Option<TopicName>,
}

impl Plan {
    /// The first thing that is named and does not exist, in words.
    pub(crate) fn misnomer(&self) -> Option<String> {
        let topics = self.topics_named();
        let unknown = topics.into_iter().find(|topic| !self.has_topic(topic));
        let unknown = unknown.map(|topic| format!("no topic {topic}"));
        let mut phases = self.script.iter();
        unknown
            .or_else(|| self.misnamed_ticks())
            .or_else(|| phases.find_map(|phase| self.misnomer_of(phase)))
            .or_else(|| self.misnomer_of_end())
    }

    /// The topics of stages and edge clients.
    fn topics_named(&self) -> Vec<TopicName> {
        let mut topics = Vec::new();
        for declaration in self.stages.iter().flat_map(|stage| &stage.declarations) {
            topics.extend(declaration.consumed().chain(declaration.produced()));
            let emits = declaration.inputs.iter().flat_map(|input| &input.emits);
            topics.extend(emits.map(|emit| emit.to));
        }
        for edge in &self.edges {
            topics.extend(edge.to());
            if let EdgeKind::Observer { reads, .. } = &edge.kind {
                topics.extend(reads);
            }
        }
        topics
    }

    /// A stage's ticks go to a topic that is named after it.
    fn misnamed_ticks(&self) -> Option<String> {
        self.stages.iter().find_map(|stage| {
            let due = format!("{APPLICATION}-{}-ticks", stage.name);
            let mut named = stage.declarations.iter().filter_map(|named| named.ticks);
            let wrong = named.find(|&ticks| ticks != due)?;
            Some(format!("{wrong} for {due}"))
        })
    }

    fn has_topic(&self, name: &str) -> bool {
        self.topics.iter().any(|topic| topic.name == name)
    }

    fn edge(&self, name: &str) -> Option<&EdgePlan> {
        self.edges.iter().find(|edge| edge.name == name)
    }

    fn misnomer_of(&self, phase: &Phase) -> Option<String> {
        let Named { stage, edge, topic } = phase.named();
        let wrong = |what: String| Some(format!("{phase:?} names {what}"));
        if let Some(stage) = stage {
            let Some(plan) = self.stages.iter().find(|plan| plan.name == stage) else {
                return wrong(format!("no stage: {stage}"));
            };
            if let Phase::Deploy(_, number) = phase
                && *number >= plan.declarations.len()
            {
                return wrong(format!("no declaration of {stage}: {number}"));
            }
        }
        if let Some(topic) = topic.filter(|topic| !self.has_topic(topic)) {
            return wrong(format!("no topic: {topic}"));
        }
        let edge_name = edge?;
        let Some(edge) = self.edge(edge_name) else {
            return wrong(format!("no edge client: {edge_name}"));
        };
        if let Some(topic) = topic.filter(|topic| !edge.to().contains(topic)) {
            return wrong(format!(
                "a topic that {edge_name} does not send to: {topic}"
            ));
        }
        let transacts = matches!(edge.kind, EdgeKind::Transactional { .. });
        let reads = matches!(edge.kind, EdgeKind::Observer { .. });
        match phase {
            Phase::LeaveOpen(..) | Phase::Decide(..) if !transacts => {
                wrong(format!("a client without transactions: {edge_name}"))
            }
            Phase::Read(_) if !reads => wrong(format!("a client that does not read: {edge_name}")),
            _ => None,
        }
    }

    fn misnomer_of_end(&self) -> Option<String> {
        let (stage, topic) = match self.rules.end {
            End::Drained => return None,
            End::Refused { stage, .. } => (stage, None),
            End::Wedged { stage, on } => (stage, Some(on)),
        };
        let known = self.stages.iter().any(|plan| plan.name == stage)
            && topic.is_none_or(|topic| self.has_topic(topic));
        (!known).then(|| format!("{:?} names what is not there", self.rules.end))
    }
}

impl Phase {
    fn named(&self) -> Named {
        let none = Named::default();
        match *self {
            Self::Random(_) | Self::Settle | Self::Age => none,
            Self::Send(edge, _) | Self::Decide(edge, _) | Self::Read(edge) => Named {
                edge: Some(edge),
                ..none
            },
            Self::SendTo(edge, topic)
            | Self::SendCorrupt(edge, topic)
            | Self::LeaveOpen(edge, topic) => Named {
                edge: Some(edge),
                topic: Some(topic),
                ..none
            },
            Self::Rewind(stage, _)
            | Self::Forget(stage, _)
            | Self::Start(stage)
            | Self::Stop(stage)
            | Self::Deploy(stage, _)
            | Self::Crash(stage)
            | Self::Check(stage)
            | Self::Evidence(stage)
            | Self::EvidenceMove(stage)
            | Self::Tick(stage) => Named {
                stage: Some(stage),
                ..none
            },
            Self::ReadOnly(stage, topic)
            | Self::ReadOnlyAt(stage, _, topic)
            | Self::TickAmong(stage, topic, _) => Named {
                stage: Some(stage),
                topic: Some(topic),
                ..none
            },
            Self::SweepAll(topic)
            | Self::SweepBelow(topic, _)
            | Self::Delete(topic)
            | Self::Hide(topic)
            | Self::Recreate(topic)
            | Self::StallMarkers(topic)
            | Self::ResumeMarkers(topic) => Named {
                topic: Some(topic),
                ..none
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::{Declaration, EdgePlan, Emit, End, Phase, Plan, Rules, StagePlan, topics};

    fn plan(script: Vec<Phase>) -> Plan {
        Plan {
            topics: topics(&["orders", "bills"]),
            stages: vec![StagePlan::new(
                "bill",
                Declaration::default().on("orders", &[Emit::to("bills")]),
            )],
            edges: vec![EdgePlan::sequential("shop", &["orders"], 1)],
            script,
            rules: Rules::default(),
        }
    }

    #[test]
    fn a_plan_that_names_what_it_has_is_right() {
        let script = vec![
            Phase::SendTo("shop", "orders"),
            Phase::ReadOnly("bill", "orders"),
            Phase::Deploy("bill", 0),
            Phase::SweepAll("bills"),
        ];
        assert_eq!(plan(script).misnomer(), None);
    }

    #[test]
    fn a_phase_that_would_do_nothing_is_found() {
        for wrong in [
            Phase::Stop("bil"),
            Phase::Deploy("bill", 1),
            Phase::ReadOnly("bill", "order"),
            Phase::Delete("order"),
            Phase::Send("bill", 1),
            Phase::SendTo("shop", "bills"),
            Phase::Decide("shop", true),
            Phase::Read("shop"),
        ] {
            let text = format!("{wrong:?}");
            let found = plan(vec![wrong]).misnomer();
            assert!(
                found.is_some_and(|found| found.starts_with(&text)),
                "{text}"
            );
        }
    }

    #[test]
    fn topics_of_stages_and_clients_exist() {
        let mut unknown = plan(Vec::new());
        unknown.topics.pop();
        assert_eq!(unknown.misnomer().as_deref(), Some("no topic bills"));
    }

    #[test]
    fn ticks_go_to_the_topic_that_is_named_after_the_stage() {
        let ticking = |stage, ticks| Plan {
            topics: topics(&["orders", ticks]),
            stages: vec![StagePlan::new(
                stage,
                Declaration::reads(&["orders"]).ticking(ticks),
            )],
            ..plan(Vec::new())
        };
        let edges_apart = |mut plan: Plan| {
            plan.edges.clear();
            plan.misnomer()
        };
        assert_eq!(edges_apart(ticking("bill", "sim-bill-ticks")), None);
        assert_eq!(
            edges_apart(ticking("ship", "sim-bill-ticks")).as_deref(),
            Some("sim-bill-ticks for sim-ship-ticks")
        );
    }

    #[test]
    fn the_end_is_that_of_a_stage() {
        let mut unknown = plan(Vec::new());
        unknown.rules.end = End::Wedged {
            stage: "bill",
            on: "parcels",
        };
        assert!(unknown.misnomer().is_some());
    }
}
