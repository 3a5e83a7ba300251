//! Watches a run until all is delivered.

use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError};
use std::thread;
use std::time::Duration;

use parsley::embedded::{Running, Status, TaskState, Waited};

use super::Seen;
use super::audit::Auditor;
use super::error::DemoError;
use super::feed::Fed;
use super::gate::Gate;
use super::ground::Bell;
use super::screen::Screen;
use crate::failure::Failure;
use crate::unread::unread;

/// How long a full application may be silent. It never is, unless something is badly wrong.
const SILENCE: Duration = Duration::from_secs(60);

/// Starts a thread. It ends with its work or with the process: nobody waits for input that never ends.
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), DemoError> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map(drop)
        .map_err(DemoError::Thread)
}

/// Looks out for a task that does not work as it should.
pub fn look_out_for_failures(
    running: &Arc<Running>,
    seen: &SyncSender<Seen>,
) -> Result<(), DemoError> {
    let (running, seen) = (Arc::clone(running), seen.clone());
    spawn("watch", move || {
        let mut found = None;
        // Kept as it was found: the task may be past it when it is told.
        let waited = running.wait(|status| {
            found = broken(status);
            found.is_some()
        });
        if waited == Waited::Reached
            && let Some(error) = found
        {
            drop(seen.send(Seen::Broken(Box::new(error))));
        }
    })
}

/// Looks out for a reader of the output that goes away.
pub fn look_out_for_reader(seen: &SyncSender<Seen>) -> Result<(), DemoError> {
    let seen = seen.clone();
    spawn("output", move || {
        if let Some(error) = unread() {
            drop(seen.send(Seen::Unread(error)));
        }
    })
}

fn broken(status: &Status) -> Option<DemoError> {
    status.tasks.iter().find_map(|task| {
        if let Some(error) = &task.storage {
            return Some(error.clone().into());
        }
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

/// What was fed, and why no more was, if the input could not be read to its end.
pub type AllFed = (Fed, Option<Failure>);

/// Watches until all is delivered.
pub struct Watch<'a> {
    pub running: &'a Arc<Running>,
    pub bell: &'a Bell,
    pub seen: SyncSender<Seen>,
    pub sight: Receiver<Seen>,
    pub gate: &'a Gate,
}

impl Watch<'_> {
    /// Reads the account of deliveries as it grows, and returns what was fed once it has all of that.
    pub fn all(
        self,
        auditor: &mut Auditor,
        screen: &mut Screen<impl Write>,
    ) -> Result<AllFed, Failure> {
        let mut fed = None;
        loop {
            let found = read(auditor, screen)?;
            let seen = match self.sight.try_recv() {
                Ok(seen) => seen,
                Err(TryRecvError::Empty) if found => continue,
                // There is nothing to do for now: what was found so far is handed out.
                Err(_) => {
                    auditor.flush()?;
                    screen.flush().map_err(Failure::Write)?;
                    match self.sight.recv_timeout(SILENCE) {
                        Ok(seen) => seen,
                        // Nothing to see is no fault while there may be nothing to do: the input may be slow.
                        Err(RecvTimeoutError::Timeout)
                            if fed.is_none() && !self.gate.is_awaited() =>
                        {
                            continue;
                        }
                        Err(_) => return Err(DemoError::Silent.into()),
                    }
                }
            };
            match seen {
                Seen::News => self.bell.heard(),
                Seen::Taken(lines) => screen.taken(lines).map_err(Failure::Write)?,
                Seen::Fed(all) => {
                    fed = Some(on_fed(*all)?);
                    self.await_idleness()?;
                }
                Seen::Idle => {
                    while read(auditor, screen)? {}
                    return Ok(fed.unwrap_or_default());
                }
                Seen::Unread(error) => return Err(Failure::Write(error)),
                Seen::Broken(error) => return Err((*error).into()),
            }
        }
    }

    fn await_idleness(&self) -> Result<(), DemoError> {
        let (running, seen) = (Arc::clone(self.running), self.seen.clone());
        spawn("idle", move || {
            // What rests has committed all that it did: the account has it.
            drop(seen.send(match running.wait_until_idle() {
                Waited::Reached => Seen::Idle,
                _ => {
                    let error = broken(&running.status()).unwrap_or(DemoError::Silent);
                    Seen::Broken(Box::new(error))
                }
            }));
        })
    }
}

/// What was read of an input that breaks off is still processed. When the log fails there is nothing to wait for.
fn on_fed((fed, failure): AllFed) -> Result<AllFed, Failure> {
    match failure {
        None | Some(Failure::Read { .. }) => Ok((fed, failure)),
        Some(failure) => Err(failure),
    }
}

fn read(auditor: &mut Auditor, screen: &mut Screen<impl Write>) -> Result<bool, Failure> {
    auditor.read(|held| screen.held(held).map_err(Failure::Write))
}
