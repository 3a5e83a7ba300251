//! Feeds the commands: line by line, in portions, as many at once as the gate lets in.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use super::Seen;
use super::balances::Balances;
use super::builtin;
use super::command::{self, AccountCommand, NotACommand};
use super::gate::Gate;
use super::ground::{Entry, Ground, LogWriter};
use super::progress::Progress;
use super::taken::{Origin, Taken, pass_over, unreadable};
use super::topology;
use crate::failure::Failure;
use crate::input::{Input, Reader};
use crate::lines::{Line, Lines};

/// In what portions commands come.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How many are under way at most.
    pub under_way: u64,
    /// How many are written at once.
    pub portion: u64,
}

/// The longest line of input that is taken for a command.
const LINE_LIMIT: usize = 64 << 10;
/// How many malformed lines are shown; the others are counted.
const SHOWN: u64 = 20;

/// What was fed, in this run and in those before it.
#[derive(Debug, Default)]
pub struct Fed {
    /// Commands.
    pub commands: u64,
    /// Lines that are none.
    pub malformed: u64,
    /// What the commands come to, by account.
    pub balances: Balances,
}

/// An opened input, at the first line that no run has taken.
pub struct Source {
    input: Option<Input>,
    origin: Origin,
    lines: Lines<Reader>,
    /// What was taken of all inputs.
    taken: Taken,
    balances: Balances,
}

impl Source {
    /// Passes over what earlier runs took, and looks at it. Nothing is changed.
    pub fn resume(
        ground: &dyn Ground,
        input: Option<Input>,
        reader: Option<Reader>,
    ) -> Result<Self, Failure> {
        let origin = Origin::of(input.as_ref());
        let mut taken = Taken::read(ground)?;
        taken.stands_on(ground.identities())?;
        let mut lines = Lines::new(reader.unwrap_or_else(builtin::reader), LINE_LIMIT);
        let mut balances = Balances::default();
        if origin.comes_again() && ground.is_durable() {
            lines = lines.digesting();
            let place = ground.place();
            pass_over(
                &mut lines,
                input.as_ref(),
                place,
                taken.of(origin),
                |line| {
                    if let Line::Text(text) = line
                        && let Ok(command) = command::parse(text)
                    {
                        balances.replay(&command);
                    }
                },
            )?;
        }
        if !origin.comes_again() || taken.commands() != taken.of(origin).commands {
            // There are commands that no line here tells of.
            balances = Balances::of_log(ground)?;
        }
        Ok(Self {
            input,
            origin,
            lines,
            taken,
            balances,
        })
    }

    /// How many commands earlier runs took.
    pub fn commands(&self) -> u64 {
        self.taken.commands()
    }
}

/// Feeds a source to an application.
pub struct Feeder {
    writer: Box<dyn LogWriter>,
    gate: Arc<Gate>,
    pace: Pace,
    progress: Progress,
    source: Source,
    commands_in_portion: u64,
    /// Lines of this run: all that were read, and those of them whose portions have ended.
    read: u64,
    ended: u64,
    malformed: u64,
    /// Who is told of each portion.
    confirm: Option<SyncSender<Seen>>,
}

/// Whether to go on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    More,
    Closed,
}

impl Feeder {
    /// A feeder of a source, which says on the `progress` of each line that is malformed what is wrong with it. Where lines do not come again it
    /// tells those who want it confirmed how many are taken for good.
    pub fn new(
        writer: Box<dyn LogWriter>,
        gate: Arc<Gate>,
        pace: Pace,
        progress: Progress,
        source: Source,
        confirm: Option<SyncSender<Seen>>,
    ) -> Self {
        Self {
            confirm: confirm.filter(|_| !source.origin.comes_again()),
            writer,
            gate,
            pace,
            progress,
            source,
            commands_in_portion: 0,
            read: 0,
            ended: 0,
            malformed: 0,
        }
    }

    /// Feeds all lines. Returns what was fed, and why no more was, if something went wrong.
    pub fn feed(mut self) -> (Fed, Option<Failure>) {
        let failure = match self.lines() {
            Ok(Flow::Closed) => None,
            Ok(Flow::More) => self.end_portion().err(),
            // What was read before the failure is taken.
            Err(failure @ Failure::Read { .. }) => {
                Some(self.end_portion().err().unwrap_or(failure))
            }
            Err(failure) => Some(failure),
        };
        if let hidden @ 1.. = self.malformed.saturating_sub(SHOWN) {
            self.progress
                .say(&format!("{hidden} more malformed lines were skipped"));
        }
        let Source {
            taken, balances, ..
        } = self.source;
        let fed = Fed {
            commands: taken.commands(),
            malformed: taken.malformed(),
            balances,
        };
        (fed, failure)
    }

    fn lines(&mut self) -> Result<Flow, Failure> {
        let limit = self.source.lines.limit();
        loop {
            if self.source.lines.may_wait() {
                self.end_portion()?;
                self.progress.reached(self.source.lines.bytes());
            }
            if self.ended == self.read && !self.gate.await_room(self.pace.portion) {
                return Ok(Flow::Closed);
            }
            let Source {
                input,
                lines,
                origin,
                taken,
                ..
            } = &mut self.source;
            let next = lines.next();
            let Some((number, line)) = next.map_err(|error| unreadable(input.as_ref(), error))?
            else {
                return Ok(Flow::More);
            };
            let command = match line {
                Line::Text(text) if text.trim().is_empty() => None,
                Line::Text(text) => Some(command::parse(text)),
                Line::NotUtf8 { valid_up_to } => Some(Err(NotACommand::NotUtf8 { valid_up_to })),
                Line::TooLong => Some(Err(NotACommand::TooLong { limit })),
            };
            let counted = taken.of_mut(*origin);
            match command {
                Some(Ok(command)) => {
                    self.gate.enter();
                    counted.commands += 1;
                    self.send(&command)?;
                }
                Some(Err(fault)) => {
                    counted.malformed += 1;
                    self.malformed(number, &fault);
                }
                None => {}
            }
            self.source.taken.of_mut(self.source.origin).lines += 1;
            self.read += 1;
            if self.commands_in_portion == self.pace.portion {
                self.end_portion()?;
            }
        }
    }

    fn send(&mut self, command: &AccountCommand) -> Result<(), Failure> {
        let value = serde_json::to_vec(&command.command).expect("a command is JSON");
        let number = self.source.taken.commands() - 1;
        self.writer.send(Entry {
            topic: topology::COMMANDS,
            key: Some(command.account.clone()),
            value,
            number: Some(number),
        })?;
        self.source.balances.replay(command);
        self.commands_in_portion += 1;
        Ok(())
    }

    fn malformed(&mut self, number: u64, fault: &NotACommand) {
        self.malformed += 1;
        if self.malformed <= SHOWN {
            self.progress.say(&format!("line {number}: {fault}"));
        }
    }

    /// Commits the lines that were read since the last portion, and notes with them that they are taken.
    fn end_portion(&mut self) -> Result<(), Failure> {
        if self.ended == self.read {
            return Ok(());
        }
        let Source {
            taken,
            origin,
            lines,
            ..
        } = &mut self.source;
        taken.of_mut(*origin).digest = lines.digest();
        self.writer.send(taken.entry())?;
        self.writer.commit()?;
        self.commands_in_portion = 0;
        self.ended = self.read;
        if let Some(confirm) = &self.confirm {
            // Nobody looks on any more when the demo ends early.
            drop(confirm.send(Seen::Taken(self.ended)));
        }
        Ok(())
    }
}
