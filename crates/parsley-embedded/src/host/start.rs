//! Starting an application: the checks, the opening of every task, and the threads.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use parsley_core::{Refusal, RefusalCode};
use parsley_stage::{App, Stage, TopicInfo};

use super::board::{Board, Cell};
use super::context::{Context, Failure};
use super::error::StartError;
use super::execution::Execution;
use super::running::Running;
use super::settings::Settings;
use super::status::{TaskState, TaskStatus};
use super::worker::Worker;
use crate::log::{Log, State, Storage};

/// A stage that can be started.
struct Checked {
    stage: Stage,
    group: String,
    width: i32,
    topics: BTreeMap<Arc<str>, TopicInfo>,
}

pub(crate) fn start(log: &Log, settings: &Arc<Settings>, app: &App) -> Result<Running, StartError> {
    check_delays(settings, app)?;
    let stages = claim(&mut log.lock(), app)?;
    let statuses = stages.iter().flat_map(|stage| {
        let name: Arc<str> = stage.stage.name().into();
        (0..stage.width).map(move |partition| Cell::new(initial_status(&name, partition)))
    });
    let board = Arc::new(Board::new(statuses.collect()));
    let running = Running {
        log: log.clone(),
        board: Arc::clone(&board),
        application: app.name().to_owned(),
        groups: Mutex::new(stages.iter().map(|stage| stage.group.clone()).collect()),
        threads: Mutex::default(),
    };
    let tasks = stages
        .iter()
        .flat_map(|stage| (0..stage.width).map(move |partition| (stage, partition)));
    let workers: Vec<(Worker, Result<Execution, Failure>)> = tasks
        .enumerate()
        .map(|(index, (stage, partition))| {
            let context = Context {
                log: log.clone(),
                settings: Arc::clone(settings),
                board: Arc::clone(&board),
                index,
                application: app.name().to_owned(),
                stage: stage.stage.clone(),
                stage_name: stage.stage.name().into(),
                partition,
                group: stage.group.clone(),
                topics: stage.topics.clone(),
            };
            // Opened here, so that the positions that a first start takes are those of this moment.
            let opened = Execution::open(&context);
            (
                Worker {
                    context,
                    failures: 0,
                },
                opened,
            )
        })
        .collect();
    for (worker, opened) in workers {
        let stage = worker.context.stage.name().to_owned();
        let name = format!("{}-{}", worker.context.group, worker.context.partition);
        // Should one not start, dropping `running` stops those that did.
        let thread = std::thread::Builder::new()
            .name(name)
            .spawn(move || worker.run(opened))
            .map_err(|source| StartError::Thread { stage, source })?;
        running
            .threads
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .push(thread);
    }
    Ok(running)
}

pub(crate) fn initial_status(stage: &Arc<str>, partition: i32) -> TaskStatus {
    TaskStatus {
        stage: Arc::clone(stage),
        partition,
        state: TaskState::Running,
        refused_topic: None,
        received: 0,
        dropped: 0,
        delivered: 0,
        held: 0,
        steps: 0,
        failed_steps: 0,
        widest_clock_bytes: 0,
        inputs: Vec::new(),
    }
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

/// Checks the declaration against the log, and takes the stages' groups for this application. Nothing is taken when a check fails.
fn claim(state: &mut State, app: &App) -> Result<Vec<Checked>, StartError> {
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
    for stage in &stages {
        state.storage.group_mut(&stage.group).width = Some(stage.width);
        state.running_groups.insert(stage.group.clone());
    }
    Ok(stages)
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
