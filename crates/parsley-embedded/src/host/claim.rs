//! Checking a declaration against the log, and taking its stages' groups: what precedes every way to run an application.

use std::collections::BTreeMap;
use std::sync::Arc;

use parsley_core::{Refusal, RefusalCode, TopicId};
use parsley_stage::meter::{self, StageMeter};
use parsley_stage::watch::TaskWatch;
use parsley_stage::{App, Stage, TickTopicWidth, TopicInfo};

use super::audit;
use super::context::{Context, StopFlag};
use super::error::StartError;
use super::settings::Settings;
use super::telling::Telling;
use crate::log::{Log, State, Storage};

/// The groups of an application, taken: no other run of a stage begins before they are released. Dropping it releases them.
pub(crate) struct GroupClaim {
    log: Log,
    groups: Vec<String>,
}

/// An application that fits the log, and whose groups are taken.
pub(crate) struct Claimed {
    pub(crate) groups: GroupClaim,
    /// One for each task, stages in the order declared, partitions in order.
    pub(crate) contexts: Vec<Context>,
    /// What ends steps early.
    pub(crate) stop: StopFlag,
}

/// An application that fits the log.
struct Fitting {
    stages: Vec<Checked>,
    /// The topic of the account, if there is to be one.
    audit: Option<TopicId>,
}

/// A stage that can be run.
struct Checked {
    stage: Stage,
    group: String,
    width: i32,
    topics: BTreeMap<Arc<str>, TopicInfo>,
}

impl GroupClaim {
    /// Releases the groups, with the log's lock held.
    pub(crate) fn release(&mut self, state: &mut State) {
        for group in self.groups.drain(..) {
            state.running_groups.remove(&group);
        }
    }
}

impl Drop for GroupClaim {
    fn drop(&mut self) {
        // What has been released needs no lock, which the dropper may hold.
        if !self.groups.is_empty() {
            let log = self.log.clone();
            self.release(&mut log.lock());
        }
    }
}

/// Checks an application and takes its groups. Nothing is taken when a check fails.
pub(crate) fn claim(log: &Log, settings: &Arc<Settings>, app: &App) -> Result<Claimed, StartError> {
    check_delays(settings, app)?;
    let Fitting { stages, audit } =
        check_and_take(&mut log.lock(), settings.audit.as_deref(), app)?;
    let groups = GroupClaim {
        log: log.clone(),
        groups: stages.iter().map(|stage| stage.group.clone()).collect(),
    };
    let stop = StopFlag::default();
    meter::describe();
    let application: Arc<str> = app.name().into();
    let telling = |stage: &Checked, partition| {
        let Checked { stage, topics, .. } = stage;
        let warning_after = settings.hold_warning_after;
        let watch = TaskWatch::new(&application, stage, partition, topics, warning_after);
        let meter = StageMeter::register(&application, &stage.name().into());
        Telling::new(watch, meter, settings.time.clone())
    };
    let context = |stage: &Checked, partition| Context {
        log: log.clone(),
        settings: Arc::clone(settings),
        stop: stop.clone(),
        application: app.name().to_owned(),
        stage: stage.stage.clone(),
        stage_name: stage.stage.name().into(),
        partition,
        group: stage.group.clone(),
        topics: stage.topics.clone(),
        audit,
        telling: telling(stage, partition),
    };
    let contexts = stages
        .iter()
        .flat_map(|stage| (0..stage.width).map(move |partition| context(stage, partition)))
        .collect();
    Ok(Claimed {
        groups,
        contexts,
        stop,
    })
}

fn check_delays(settings: &Settings, app: &App) -> Result<(), StartError> {
    for (stage, topic) in settings.delays.keys() {
        let Some(declared) = app.stage(stage) else {
            continue;
        };
        if !declared.inputs().any(|input| input == topic) {
            return Err(StartError::Delay {
                stage: stage.clone(),
                topic: topic.clone(),
            });
        }
    }
    Ok(())
}

fn check_and_take(
    state: &mut State,
    audit: Option<&str>,
    app: &App,
) -> Result<Fitting, StartError> {
    let missing: Vec<String> = app
        .topics()
        .into_iter()
        .filter(|topic| state.storage.topic_id(topic).is_none())
        .map(str::to_owned)
        .collect();
    if !missing.is_empty() {
        return Err(StartError::MissingTopics { topics: missing });
    }
    let mut stages = Vec::new();
    for stage in app.stages() {
        let group = app.consumer_group(stage);
        if state.running_groups.contains(&group) {
            return Err(StartError::AlreadyRunning { group });
        }
        let topics: BTreeMap<Arc<str>, TopicInfo> = stage
            .inputs()
            .chain(stage.sinks())
            .filter_map(|name| Some((name.into(), topic_info(&state.storage, name)?)))
            .collect();
        TickTopicWidth::check(stage, |name| Some(topics.get(name)?.partitions))?;
        let width = width(stage, &topics)?;
        let recorded = state.storage.group(&group).and_then(|group| group.width);
        if let Some(recorded) = recorded.filter(|recorded| *recorded != width) {
            let found =
                format!("the inputs have {width} partitions, and the state is of {recorded} tasks");
            let refusal = Refusal::of_node(RefusalCode::TaskWidth, found);
            return Err(StartError::Refused {
                stage: stage.name().to_owned(),
                refusal,
            });
        }
        stages.push(Checked {
            stage: stage.clone(),
            group,
            width,
            topics,
        });
    }
    let widest = stages.iter().map(|stage| stage.width).max().unwrap_or(0);
    let audit = audit
        .map(|name| audit::find_topic(&state.storage, name, app, widest))
        .transpose()?;
    for stage in &stages {
        state.storage.set_width(&stage.group, stage.width);
        state.running_groups.insert(stage.group.clone());
    }
    Ok(Fitting { stages, audit })
}

fn topic_info(storage: &Storage, name: &str) -> Option<TopicInfo> {
    let id = storage.topic_id(name)?;
    Some(TopicInfo {
        id,
        partitions: storage.topic(id)?.partition_count(),
    })
}

/// How many tasks a stage has: as many as each of its inputs has partitions.
fn width(stage: &Stage, topics: &BTreeMap<Arc<str>, TopicInfo>) -> Result<i32, StartError> {
    let partitions: BTreeMap<String, i32> = stage
        .inputs()
        .filter_map(|name| Some((name.to_owned(), topics.get(name)?.partitions)))
        .collect();
    let mut counts = partitions.values().copied();
    let width = counts.next().unwrap_or(0);
    if counts.any(|count| count != width) {
        return Err(StartError::CoPartition {
            stage: stage.name().to_owned(),
            partitions,
        });
    }
    Ok(width)
}
