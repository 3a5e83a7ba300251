//! `parsley demo`: a topology that would see effects before their causes, and does not.

mod audit;
mod builtin;
mod command;
mod error;
mod feed;
mod gate;
mod holds;
mod judge;
mod mirror;
mod progress;
mod screen;
mod topology;
mod trace;
mod unread;

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::Duration;

use parsley::embedded::{
    DeliveryEvent, HoldEvent, Host, Ids, LogConfig, Running, Status, TaskState, Waited,
};

pub use error::DemoError;

use audit::Auditor;
use feed::{Fed, Feeder, Pace};
use gate::Gate;
use progress::Progress;
use same_file::Handle;
use screen::Screen;
use trace::{Occupied, TraceFile};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::input::{Input, Reader};

const PARTITIONS: i32 = 2;
/// For how many of its fetch rounds the adversary keeps a command from the reconciler. A round lasts until the log changes at least: this is
/// more than all the portions of commands that are under way, so that the stages before the reconciler have come on in the meantime.
const DELAY_ROUNDS: u64 = 24;
/// The seed of topic identities: with it they are the same in each run.
const IDS: u64 = 2;
/// How many observations may queue up.
const QUEUE: usize = 1024;
/// How long a full application may be silent. It never is, unless something is badly wrong.
const SILENCE: Duration = Duration::from_secs(60);

/// What the one who watches is told.
enum Seen {
    Held(HoldEvent),
    Delivered(DeliveryEvent),
    /// All is fed.
    Fed(Fed, Option<Failure>),
    /// All is delivered.
    Idle,
    /// A task does not work as it should.
    Broken,
    /// Nobody reads the output any more.
    Unread(io::Error),
}

/// Runs the demo: over the commands of an input, or the built-in ones.
pub fn run(
    input: Option<&Input>,
    json: bool,
    trace: Option<&Path>,
    out: impl Write,
) -> Result<Exit, Failure> {
    let mut screen = if json {
        Screen::json(out)
    } else {
        Screen::table(out)
    };
    // What cannot be opened is said before anything is shown or written to.
    let opened = input.map(Input::open_with_identity).transpose()?;
    let (reader, identity) = opened.unzip();
    let trace = trace
        .map(|path| TraceFile::create(path, &in_use(input, identity.flatten())))
        .transpose()?;
    let (seen, sight) = mpsc::sync_channel(QUEUE);
    let host = host(&seen)?;
    let pace = if input.is_some() {
        Pace::INPUT
    } else {
        Pace::BUILTIN
    };
    let gate = Arc::new(Gate::new(pace.under_way));
    let auditor = Auditor::new(host.clone(), Arc::clone(&gate), trace)?;
    screen.begin().map_err(Failure::Write)?;

    let progress = input.map_or(Progress::none(), Progress::over);
    let app = topology::app().map_err(DemoError::from)?;
    let running = Arc::new(host.start(app).map_err(DemoError::from)?);
    watch(&running, &seen)?;
    watch_output(&seen)?;
    let feeder = Feeder::new(host.producer(), Arc::clone(&gate), pace);
    feed(
        feeder,
        input.cloned().zip(reader),
        progress.clone(),
        seen.clone(),
    )?;
    let watched = Watch {
        running: &running,
        seen,
        sight,
        gate: &gate,
    }
    .all(auditor, &mut screen);
    gate.close();
    progress.end();
    let (auditor, fed, failed) = watched?;
    running.stop().map_err(DemoError::from)?;

    let summary = auditor.end(&fed)?;
    if let Some(failure) = failed {
        // Nobody is to take what came of a part of the input for what comes of all of it.
        screen.flush().map_err(Failure::Write)?;
        return Err(failure);
    }
    screen.end(&summary).map_err(Failure::Write)?;
    Ok(if summary.is_good() {
        Exit::Done
    } else {
        Exit::Failed
    })
}

/// The files that the demo reads from and prints to.
fn in_use(input: Option<&Input>, identity: Option<Handle>) -> Vec<Occupied> {
    let input = input.zip(identity).map(|(input, handle)| Occupied {
        name: format!("the input, {input}"),
        handle,
    });
    let output = Handle::stdout().ok().map(|handle| Occupied {
        name: "standard output".to_owned(),
        handle,
    });
    input.into_iter().chain(output).collect()
}

fn host(seen: &SyncSender<Seen>) -> Result<Host, DemoError> {
    let (delivered, held) = (seen.clone(), seen.clone());
    // Nobody looks on any more when the demo ends early.
    let host = Host::builder()
        .log_config(LogConfig::default().ids(Ids::Seeded(IDS)))
        .delay(topology::RECONCILER, topology::COMMANDS, DELAY_ROUNDS)
        .on_delivery(move |event| drop(delivered.send(Seen::Delivered(event.clone()))))
        .on_hold(move |event| drop(held.send(Seen::Held(event.clone()))))
        .build()?;
    for topic in [
        topology::COMMANDS,
        topology::EVENTS,
        topology::VIEWS,
        topology::FINDINGS,
    ] {
        host.create_topic(topic, PARTITIONS)?;
    }
    Ok(host)
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), DemoError> {
    // The thread ends with its work or with the process: nobody waits for input that never ends.
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map(drop)
        .map_err(DemoError::Thread)
}

/// Looks out for a task that does not work as it should.
fn watch(running: &Arc<Running>, seen: &SyncSender<Seen>) -> Result<(), DemoError> {
    let (running, seen) = (Arc::clone(running), seen.clone());
    spawn("watch", move || {
        if running.wait(|status| broken(status).is_some()) == Waited::Reached {
            drop(seen.send(Seen::Broken));
        }
    })
}

/// Looks out for a reader of the output that goes away.
fn watch_output(seen: &SyncSender<Seen>) -> Result<(), DemoError> {
    let seen = seen.clone();
    spawn("output", move || {
        if let Some(error) = unread::unread() {
            drop(seen.send(Seen::Unread(error)));
        }
    })
}

fn broken(status: &Status) -> Option<DemoError> {
    status.tasks.iter().find_map(|task| {
        let (stage, partition) = (task.stage.to_string(), task.partition);
        match &task.state {
            TaskState::Refused(refusal) => Some(DemoError::Refused {
                stage,
                partition,
                refusal: refusal.clone(),
            }),
            // The demo's logic never fails, so trying again does not help.
            TaskState::Failed { message } | TaskState::Retrying { message, .. } => {
                Some(DemoError::Failed {
                    stage,
                    partition,
                    message: message.clone(),
                })
            }
            _ => None,
        }
    })
}

fn feed(
    feeder: Feeder,
    source: Option<(Input, Reader)>,
    progress: Progress,
    seen: SyncSender<Seen>,
) -> Result<(), DemoError> {
    spawn("feed", move || {
        let (fed, failure) = match source {
            None => feeder.builtin(),
            Some((input, reader)) => feeder.input(&input, reader, &progress),
        };
        drop(seen.send(Seen::Fed(fed, failure)));
    })
}

/// Watches until all is delivered.
struct Watch<'a> {
    running: &'a Arc<Running>,
    seen: SyncSender<Seen>,
    sight: Receiver<Seen>,
    gate: &'a Gate,
}

impl Watch<'_> {
    /// Returns what was seen, what was fed, and why no more was fed, if something went wrong with the input.
    fn all(
        self,
        mut auditor: Auditor,
        screen: &mut Screen<impl Write>,
    ) -> Result<(Auditor, Fed, Option<Failure>), Failure> {
        let mut all_fed = false;
        let mut fed = Fed::default();
        let mut failed = None;
        loop {
            let seen = match self.sight.try_recv() {
                Ok(seen) => Ok(seen),
                // There is nothing to do for now: what was found so far is handed out.
                Err(_) => {
                    auditor.flush()?;
                    screen.flush().map_err(Failure::Write)?;
                    self.sight.recv_timeout(SILENCE)
                }
            };
            match seen {
                Ok(Seen::Held(event)) => auditor.held(&event),
                Ok(Seen::Delivered(event)) => {
                    if let Some(held) = auditor.delivered(&event)? {
                        screen.held(held).map_err(Failure::Write)?;
                    }
                }
                Ok(Seen::Fed(all, failure)) => {
                    (fed, failed, all_fed) = (all, failure, true);
                    let (running, seen) = (Arc::clone(self.running), self.seen.clone());
                    spawn("idle", move || {
                        // Tasks tell what they delivered before they rest: this is the last that is seen.
                        drop(seen.send(match running.wait_until_idle() {
                            Waited::Reached => Seen::Idle,
                            _ => Seen::Broken,
                        }));
                    })?;
                }
                Ok(Seen::Idle) => return Ok((auditor, fed, failed)),
                Ok(Seen::Unread(error)) => return Err(Failure::Write(error)),
                Ok(Seen::Broken) => {
                    return Err(broken(&self.running.status())
                        .unwrap_or(DemoError::Silent)
                        .into());
                }
                // Nothing to see is no fault while there may be nothing to do: the input may be slow.
                Err(RecvTimeoutError::Timeout) if !all_fed && !self.gate.is_full() => {}
                Err(_) => return Err(DemoError::Silent.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parsley::embedded::NewRecord;
    use topology::{COMMANDS, VIEWS, View};

    /// Runs the application over records that somebody wrote without stamps, and returns what is seen of it.
    fn seen_of(records: Vec<NewRecord>) -> audit::Summary {
        let (seen, sight) = mpsc::sync_channel(QUEUE);
        let host = host(&seen).unwrap();
        let mut auditor = Auditor::new(host.clone(), Arc::new(Gate::new(1)), None).unwrap();
        let running = host.start(topology::app().unwrap()).unwrap();
        for record in records {
            host.producer().send(record).unwrap();
            assert_eq!(running.wait_until_idle(), Waited::Reached);
        }
        running.stop().unwrap();
        for seen in sight.try_iter() {
            match seen {
                Seen::Held(event) => auditor.held(&event),
                Seen::Delivered(event) => drop(auditor.delivered(&event).unwrap()),
                Seen::Fed(..) | Seen::Idle | Seen::Broken | Seen::Unread(_) => {
                    unreachable!("nobody sends these here")
                }
            }
        }
        auditor.end(&Fed::default()).unwrap()
    }

    fn view(command: i64, balance: u64) -> NewRecord {
        let view = View {
            command,
            balance,
            rejected: 0,
        };
        NewRecord::to(VIEWS)
            .key("a")
            .value(serde_json::to_vec(&view).unwrap())
    }

    /// A view without a stamp is delivered at once, and its command has not been.
    #[test]
    fn a_view_that_claims_nothing_comes_before_its_command_and_is_seen_to() {
        let summary = seen_of(vec![
            view(0, 5),
            NewRecord::to(COMMANDS).key("a").value(r#"{"deposit":5}"#),
        ]);
        assert_eq!(summary.inversions_delivered, 1);
        assert!(!summary.views_match && !summary.is_good());
    }

    /// The command comes, and its view, and another view of it with another balance.
    #[test]
    fn a_view_that_nothing_caused_is_seen() {
        let summary = seen_of(vec![
            NewRecord::to(COMMANDS).key("a").value(r#"{"deposit":5}"#),
            view(0, 6),
        ]);
        assert_eq!((summary.inversions_delivered, summary.delivered), (1, 5));
        assert!(!summary.views_match);
    }
}
