//! The instances as the driver has them: child processes that it starts, signals, gives orders and listens to.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::Trouble;
use crate::instance::{Generation, Left, Order, Told};
use crate::journal::Journal;
use crate::log_tail;
use crate::topology;

/// How many there are.
pub const COUNT: usize = 3;

/// How long an instance that was asked to end may take: longer than it waits for its steps.
const END_BOUND: Duration = Duration::from_secs(120);

/// How an instance stands, as it told last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stands {
    /// Tasks that run.
    pub running: usize,
    /// Tasks that do not run yet.
    pub opening: usize,
    /// Records that wait for others.
    pub held: u64,
    /// The spare application's generation, and its tasks that run, do not run yet, have refused themselves.
    pub spare: Option<(u32, [usize; 3])>,
}

#[derive(Debug, Default)]
struct Slot {
    process: Option<(Child, ChildStdin)>,
    listener: Option<JoinHandle<()>>,
    /// Whether its end is not by our hand.
    is_to_run: bool,
    starts: u64,
}

/// All of them.
pub struct Instances {
    program: PathBuf,
    brokers: String,
    folder: PathBuf,
    journal: Arc<Journal>,
    slots: [Mutex<Slot>; COUNT],
    stands: Arc<[Mutex<Option<Stands>>; COUNT]>,
    spare: Mutex<Generation>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Instances {
    /// None runs yet. `program` is this crate's, `folder` takes their state and what they print.
    pub fn new(program: PathBuf, brokers: String, folder: PathBuf, journal: Arc<Journal>) -> Self {
        Self {
            program,
            brokers,
            folder,
            journal,
            slots: Default::default(),
            stands: Arc::default(),
            spare: Mutex::new(None),
        }
    }

    /// Starts one that does not run; `late` is by how much its inputs come late.
    pub fn start(&self, number: usize, late: &[u64]) -> Result<(), Trouble> {
        // Nobody orders another generation meanwhile.
        let spare = locked(&self.spare);
        let mut slot = locked(&self.slots[number]);
        if slot.process.is_some() {
            return Ok(());
        }
        let said = File::options()
            .create(true)
            .append(true)
            .open(self.log_of(number))
            .map_err(Trouble::io("making the log of an instance"))?;
        let mut command = Command::new(&self.program);
        command
            .arg("instance")
            .args(["--number", &number.to_string()])
            .args(["--brokers", &self.brokers])
            .arg("--state")
            .arg(self.folder.join(format!("state-{number}")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(said);
        if let Some(generation) = *spare {
            command.args(["--spare", &generation.to_string()]);
        }
        for late in late {
            command.args(["--late", &late.to_string()]);
        }
        let mut process = command
            .spawn()
            .map_err(Trouble::io("starting an instance"))?;
        let taken = (process.stdin.take(), process.stdout.take());
        let (Some(orders), Some(told)) = taken else {
            unreachable!("both are piped");
        };
        let (stands, journal) = (Arc::clone(&self.stands), Arc::clone(&self.journal));
        let log = self.log_of(number);
        slot.listener = Some(std::thread::spawn(move || {
            listen(
                number,
                BufReader::new(told),
                &stands[number],
                &journal,
                &log,
            );
        }));
        slot.process = Some((process, orders));
        slot.is_to_run = true;
        slot.starts += 1;
        Ok(())
    }

    fn log_of(&self, number: usize) -> PathBuf {
        self.folder.join(format!("instance-{number}.log"))
    }

    fn signal(&self, number: usize, signal: Signal) -> Result<(), Trouble> {
        let mut slot = locked(&self.slots[number]);
        if matches!(signal, Signal::KILL | Signal::TERM) {
            slot.is_to_run = false;
        }
        let Some((process, _)) = &slot.process else {
            return Ok(());
        };
        let id = i32::try_from(process.id()).ok().and_then(Pid::from_raw);
        let id = id.expect("process ids are positive");
        // It was not waited for yet, so the id is its own, whether or not it lives.
        kill_process(id, signal)
            .map_err(|error| Trouble::io("signalling an instance")(error.into()))
    }

    /// Kills one, and waits until it is gone.
    pub fn kill(&self, number: usize) -> Result<(), Trouble> {
        self.signal(number, Signal::KILL)?;
        self.wait(number)?;
        Ok(())
    }

    /// Asks one to end, and waits until it has. It has to end as it should, once it has told how it stands: one that only starts is ended by the
    /// signal itself.
    pub fn end(&self, number: usize) -> Result<(), Trouble> {
        let is_up = locked(&self.stands[number]).is_some();
        self.signal(number, Signal::TERM)?;
        match self.wait(number)? {
            Some(status) if !is_up && status.signal() == Some(Signal::TERM.as_raw()) => {}
            Some(status) if !status.success() => {
                let last = log_tail::last(&self.log_of(number), None);
                let what = format!("instance {number} ended with {status} when it was asked to");
                self.journal.wrong(format!("{what}; {last}"));
            }
            _ => {}
        }
        Ok(())
    }

    /// Stops one where it is.
    pub fn pause(&self, number: usize) -> Result<(), Trouble> {
        self.signal(number, Signal::STOP)
    }

    /// Lets one go on.
    pub fn resume(&self, number: usize) -> Result<(), Trouble> {
        self.signal(number, Signal::CONT)
    }

    fn wait(&self, number: usize) -> Result<Option<ExitStatus>, Trouble> {
        let until = Instant::now() + END_BOUND;
        loop {
            let mut slot = locked(&self.slots[number]);
            let Some((process, _)) = &mut slot.process else {
                return Ok(None);
            };
            let ended = process
                .try_wait()
                .map_err(Trouble::io("waiting for an instance"))?;
            if let Some(status) = ended {
                self.is_gone(number, &mut slot);
                return Ok(Some(status));
            }
            if Instant::now() > until {
                let last = log_tail::last(&self.log_of(number), None);
                let what = format!("instance {number} did not end within {END_BOUND:?}");
                self.journal.wrong(format!("{what}; {last}"));
                process.kill().map_err(Trouble::io("killing an instance"))?;
                let status = process.wait();
                self.is_gone(number, &mut slot);
                return status
                    .map(Some)
                    .map_err(Trouble::io("waiting for an instance"));
            }
            drop(slot);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn is_gone(&self, number: usize, slot: &mut Slot) {
        slot.process = None;
        if let Some(listener) = slot.listener.take() {
            // It has told everything when its output ends. A panic of it has been printed.
            let _ = listener.join();
        }
        *locked(&self.stands[number]) = None;
    }

    /// Finds those that ended though nobody asked them to, and starts them again.
    pub fn look(&self, late: &[u64]) -> Result<(), Trouble> {
        for number in 0..COUNT {
            let mut slot = locked(&self.slots[number]);
            let Slot {
                process: Some((process, _)),
                is_to_run: true,
                ..
            } = &mut *slot
            else {
                continue;
            };
            let ended = process
                .try_wait()
                .map_err(Trouble::io("looking after an instance"))?;
            if let Some(status) = ended {
                let last = log_tail::last(&self.log_of(number), None);
                let what = format!("instance {number} ended with {status}, and nobody asked it to");
                self.journal.wrong(format!("{what}; {last}"));
                self.is_gone(number, &mut slot);
                drop(slot);
                self.start(number, late)?;
            }
        }
        Ok(())
    }

    /// Has all of them run a generation of the spare application, or none, from now on.
    pub fn run_spare(&self, generation: Generation) {
        let mut spare = locked(&self.spare);
        *spare = generation;
        let order = serde_json::to_string(&Order::Spare(generation));
        let order = order.expect("a number is JSON");
        for slot in &self.slots {
            if let Some((_, orders)) = &mut locked(slot).process {
                // One that has just died is told when it starts.
                let _ = writeln!(orders, "{order}").and_then(|()| orders.flush());
            }
        }
    }

    /// The generation of the spare application that is to run.
    pub fn spare(&self) -> Generation {
        *locked(&self.spare)
    }

    /// How those stand that run and have told.
    pub fn stand(&self) -> Vec<Stands> {
        self.stands.iter().filter_map(|one| *locked(one)).collect()
    }

    /// How often one was started.
    pub fn starts(&self) -> u64 {
        self.slots.iter().map(|slot| locked(slot).starts).sum()
    }
}

impl Drop for Instances {
    fn drop(&mut self) {
        for slot in &self.slots {
            if let Some((process, _)) = &mut locked(slot).process {
                // It is gone already, or goes now.
                let _ = process.kill();
                let _ = process.wait();
            }
        }
    }
}

/// Takes what an instance tells, until its output ends.
fn listen(
    number: usize,
    told: impl BufRead,
    stands: &Mutex<Option<Stands>>,
    journal: &Journal,
    log: &Path,
) {
    for line in told.lines().map_while(Result::ok) {
        let told = match serde_json::from_str(&line) {
            Ok(told) => told,
            // One that is killed may leave half a line.
            Err(_) => {
                journal.note(format!("instance {number} said: {line}"));
                continue;
            }
        };
        match told {
            Told::Stands {
                running,
                opening,
                held,
                spare,
            } => {
                *locked(stands) = Some(Stands {
                    running,
                    opening,
                    held,
                    spare,
                });
            }
            Told::Refused(refused) => journal.refused(number, refused),
            Told::Failed { spare, reason } => {
                let of = spare.map_or("the application".to_owned(), |one| format!("spare {one}"));
                journal.wrong(format!("instance {number}: {of} failed: {reason}"));
            }
            Told::Panicked { message } => {
                journal.wrong(format!("instance {number} panicked: {message}"));
            }
            Told::Spare {
                generation,
                error: Some(error),
            } => journal.note(format!("instance {number}: no spare {generation}: {error}")),
            Told::Left(left) => journal.wrong(not_ended(number, &left, log)),
            Told::Started | Told::Spare { .. } | Told::Ended { .. } => {
                journal.note(format!("instance {number}: {line}"));
            }
        }
    }
}

/// What is said of a worker that did not end in time: which, how it stood, and what it logged last. Faults are over within seconds, so that none is an excuse.
fn not_ended(number: usize, left: &Left, log: &Path) -> String {
    let Left {
        spare,
        stage,
        worker,
        stands,
    } = left;
    let application = topology::name_of(*spare);
    let group = format!("{application}-{stage}");
    let last = log_tail::last(log, Some(&format!("group={group}")));
    format!(
        "instance {number} was asked to end, and worker {worker} of stage {stage} of {application} did not in time; it stood {stands}; {last}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker that does not end in time is wrong, and it is said which it is and what it did last. One stood in librdkafka for good, and all that a
    /// run had of it was a note that its instance had not ended in time.
    #[test]
    fn a_worker_that_does_not_end_in_time_is_wrong_and_named_with_its_last_words() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::begin(&folder.path().join("journal.jsonl"), true).unwrap();
        let log = folder.path().join("instance-2.log");
        let lines = "INFO a task has opened group=nemesis-watch partition=3\nINFO a worker has ended group=nemesis-join worker=2\n";
        std::fs::write(&log, lines).unwrap();
        let left = |spare| Left {
            spare,
            stage: "watch".to_owned(),
            worker: 3,
            stands: "Running; task 3 Running after 1 steps".to_owned(),
        };
        let told = |told: Told| serde_json::to_string(&told).unwrap();
        let hear = |line: String| listen(2, line.as_bytes(), &Mutex::default(), &journal, &log);
        hear(told(Told::Ended { in_time: true }));
        assert_eq!(journal.wrongs(), [""; 0]);
        hear(told(Told::Left(left(None))));
        hear(told(Told::Left(left(Some(1)))));
        let [wrong, of_spare] = &journal.wrongs()[..] else {
            panic!("{:?}", journal.wrongs());
        };
        for part in [
            "instance 2",
            "worker 3 of stage watch of nemesis",
            "task 3 Running",
            "a task has opened",
            "a worker has ended group=nemesis-join",
        ] {
            assert!(wrong.contains(part), "{part}: {wrong}");
        }
        assert!(of_spare.contains("stage watch of spare-1"), "{of_spare}");
        assert!(of_spare.contains("nothing"), "{of_spare}");
    }
}
