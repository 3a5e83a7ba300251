//! Watches a run until all is delivered.

use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use super::Seen;
use super::audit::Auditor;
use super::error::DemoError;
use super::feed::Fed;
use super::gate::Gate;
use super::ground::{Application, Bell};
use super::screen::Screen;
use crate::failure::Failure;
use crate::unread::unread;

/// How long a full application may be silent. It never is, unless something is badly wrong; a cluster can take a while to give what a killed
/// process had to another.
const SILENCE: Duration = Duration::from_secs(120);

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
    running: &Arc<dyn Application>,
    seen: &SyncSender<Seen>,
) -> Result<(), DemoError> {
    let (running, seen) = (Arc::clone(running), seen.clone());
    spawn("watch", move || {
        if let Some(error) = running.await_failure() {
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

/// What was fed, and why no more was, if the input could not be read to its end.
pub type AllFed = (Fed, Option<Failure>);

/// Watches until all is delivered.
pub struct Watch<'a> {
    pub running: &'a Arc<dyn Application>,
    pub bell: &'a Bell,
    pub seen: SyncSender<Seen>,
    pub sight: Receiver<Seen>,
    pub gate: &'a Gate,
    /// For how long the application may have to wait for what is kept from it.
    pub withheld: Duration,
}

impl Watch<'_> {
    /// Reads the account of deliveries as it grows, and returns what was fed once it has all of that.
    pub fn all(
        self,
        auditor: &mut Auditor,
        screen: &mut Screen<impl Write>,
    ) -> Result<AllFed, Failure> {
        let silence = SILENCE + self.withheld;
        let mut fed = None;
        // Since when there should be something to see.
        let mut due_since: Option<Instant> = None;
        loop {
            let found = read(auditor, screen)?;
            // Nothing to see is no fault while there may be nothing to do: the input may be slow.
            let is_due = fed.is_some() || self.gate.is_awaited();
            if found || !is_due || self.running.is_struggling() {
                due_since = None;
            } else if due_since.get_or_insert_with(Instant::now).elapsed() >= silence {
                return Err(DemoError::Silent.into());
            }
            let seen = match self.sight.try_recv() {
                Ok(seen) => seen,
                Err(TryRecvError::Empty) if found => continue,
                // There is nothing to do for now: what was found so far is handed out.
                Err(_) => {
                    auditor.flush()?;
                    screen.flush().map_err(Failure::Write)?;
                    match self.sight.recv_timeout(silence) {
                        Ok(seen) => seen,
                        Err(RecvTimeoutError::Timeout) => continue,
                        Err(RecvTimeoutError::Disconnected) => {
                            return Err(DemoError::Silent.into());
                        }
                    }
                }
            };
            match seen {
                Seen::News => self.bell.heard(),
                Seen::Taken(lines) => screen.taken(lines).map_err(Failure::Write)?,
                Seen::Fed(all) => {
                    fed = Some(on_fed(*all)?);
                    self.await_rest()?;
                }
                Seen::AtRest => {
                    auditor.read_to_end(|held| screen.held(held).map_err(Failure::Write))?;
                    if self.running.rests_for_good() || auditor.waiting() == 0 {
                        return Ok(fed.unwrap_or_default());
                    }
                    // A full step left something to the next one.
                    self.await_rest()?;
                }
                Seen::Unread(error) => return Err(Failure::Write(error)),
                Seen::Broken(error) => return Err((*error).into()),
            }
        }
    }

    fn await_rest(&self) -> Result<(), DemoError> {
        let (running, seen) = (Arc::clone(self.running), self.seen.clone());
        spawn("rest", move || {
            drop(seen.send(match running.await_rest() {
                Ok(()) => Seen::AtRest,
                Err(error) => Seen::Broken(Box::new(error)),
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
