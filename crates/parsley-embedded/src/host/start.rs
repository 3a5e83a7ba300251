//! Starting an application: the opening of every task, and the threads.

use std::sync::{Arc, Mutex, PoisonError};

use parsley_stage::App;

use super::board::{Board, Cell};
use super::claim::{Claimed, claim};
use super::context::Context;
use super::error::StartError;
use super::execution::Execution;
use super::running::Running;
use super::settings::Settings;
use super::status::{TaskState, TaskStatus};
use super::ticking::Ticking;
use super::worker::{Opened, Worker};
use crate::log::Log;

pub(crate) fn start(log: &Log, settings: &Arc<Settings>, app: &App) -> Result<Running, StartError> {
    let Claimed {
        groups,
        contexts,
        stop,
    } = claim(log, settings, app)?;
    let cells = contexts
        .iter()
        .map(|context| Cell::new(initial_status(&context.stage_name, context.partition)));
    let board = Arc::new(Board::new(cells.collect(), stop));
    let (application, tasks) = (app.name(), contexts.len());
    tracing::info!(application, tasks, "an application starts");
    let running = Running {
        log: log.clone(),
        board: Arc::clone(&board),
        application: app.name().to_owned(),
        time: settings.time.clone(),
        groups: Mutex::new(groups),
        threads: Mutex::default(),
    };
    let worker = |(index, context): (usize, Context)| {
        // Opened here, so that the positions that a first start takes are those of this moment.
        let opened = Execution::open(&context).map(|(execution, _)| execution);
        let worker = Worker {
            ticking: Ticking::starting_now(&context.stage),
            context,
            board: Arc::clone(&board),
            index,
            failures: 0,
        };
        (worker, opened)
    };
    let workers: Vec<(Worker, Opened)> = contexts.into_iter().enumerate().map(worker).collect();
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
            .unwrap_or_else(PoisonError::into_inner)
            .push(thread);
    }
    Ok(running)
}

fn initial_status(stage: &Arc<str>, partition: i32) -> TaskStatus {
    TaskStatus {
        stage: Arc::clone(stage),
        partition,
        state: TaskState::Running,
        storage: None,
        refused_topic: None,
        received: 0,
        dropped: 0,
        delivered: 0,
        ticks: 0,
        held: 0,
        steps: 0,
        failed_steps: 0,
        widest_clock_bytes: 0,
        inputs: Vec::new(),
    }
}
