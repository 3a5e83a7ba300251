//! Feeds the commands: from the built-in set or from input, as many at once as the gate lets in.

use std::collections::BTreeMap;
use std::sync::Arc;

use parsley::embedded::{NewRecord, Producer, Transaction};

use super::builtin;
use super::command::{self, AccountCommand, Command, NotACommand};
use super::error::DemoError;
use super::gate::Gate;
use super::progress::Progress;
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
    pub batch: usize,
}

impl Pace {
    /// So few that the screen shows what happens to each.
    pub const BUILTIN: Self = Self {
        under_way: 48,
        batch: 4,
    };
    /// So many that a long input is soon done.
    pub const INPUT: Self = Self {
        under_way: 1000,
        batch: 100,
    };
}

/// The longest line of input that is taken for a command.
const LINE_LIMIT: usize = 64 << 10;
/// How many malformed lines are shown; the others are counted.
const SHOWN: u64 = 20;

/// What was fed.
#[derive(Debug, Default)]
pub struct Fed {
    /// Commands.
    pub commands: u64,
    /// Lines that are none.
    pub malformed: u64,
    /// What the commands come to, by account.
    pub balances: Balances,
}

/// The accounts as they have to end: the commands replayed, one after the other, with no part of the application.
#[derive(Debug, Default)]
pub struct Balances(BTreeMap<String, i128>);

impl Balances {
    fn replay(&mut self, AccountCommand { account, command }: &AccountCommand) {
        let change = match *command {
            Command::Deposit(amount) => i128::from(amount),
            Command::Withdraw(amount) => -i128::from(amount),
        };
        let before = match self.0.get_mut(account) {
            Some(balance) => balance,
            None => self.0.entry(account.clone()).or_default(),
        };
        let after = *before + change;
        if (0..=i128::from(u64::MAX)).contains(&after) {
            *before = after;
        }
    }

    /// Whether these are the accounts shown, with these balances.
    pub fn are(&self, shown: &BTreeMap<String, u64>) -> bool {
        self.0
            .iter()
            .map(|(account, balance)| (account, *balance))
            .eq(shown
                .iter()
                .map(|(account, balance)| (account, i128::from(*balance))))
    }
}

/// Feeds commands to an application.
pub struct Feeder {
    producer: Producer,
    gate: Arc<Gate>,
    pace: Pace,
    batch: Option<Transaction>,
    in_batch: usize,
    fed: Fed,
}

/// Whether to go on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    More,
    Closed,
}

impl Feeder {
    /// A feeder that writes with this producer.
    pub fn new(producer: Producer, gate: Arc<Gate>, pace: Pace) -> Self {
        Self {
            producer,
            gate,
            pace,
            batch: None,
            in_batch: 0,
            fed: Fed::default(),
        }
    }

    /// Feeds the built-in commands. Returns what was fed, and why no more was, if something went wrong.
    pub fn builtin(self) -> (Fed, Option<Failure>) {
        self.all(|feeder| {
            for command in builtin::commands() {
                if feeder.command(&command)? == Flow::Closed {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Feeds the commands of an opened input, and says of each line that is none what is wrong with it. Returns what was fed, and why no
    /// more was, if something went wrong.
    pub fn input(
        self,
        input: &Input,
        reader: Reader,
        progress: &Progress,
    ) -> (Fed, Option<Failure>) {
        let mut lines = Lines::new(reader, LINE_LIMIT);
        let fed = self.all(|feeder| feeder.lines(&mut lines, input, progress));
        if let hidden @ 1.. = fed.0.malformed.saturating_sub(SHOWN) {
            progress.say(&format!("{hidden} more malformed lines were skipped"));
        }
        fed
    }

    fn all(
        mut self,
        feed: impl FnOnce(&mut Self) -> Result<(), Failure>,
    ) -> (Fed, Option<Failure>) {
        let failure = feed(&mut self).err();
        self.end_batch();
        (self.fed, failure)
    }

    fn lines(
        &mut self,
        lines: &mut Lines<Reader>,
        input: &Input,
        progress: &Progress,
    ) -> Result<(), Failure> {
        let limit = lines.limit();
        loop {
            if lines.may_wait() {
                self.end_batch();
                progress.reached(lines.bytes());
            }
            let Some((number, line)) = lines.next().map_err(|error| input.unreadable(error))?
            else {
                return Ok(());
            };
            let command = match line {
                Line::Text(text) if text.trim().is_empty() => continue,
                Line::Text(text) => command::parse(text),
                Line::NotUtf8 { valid_up_to } => Err(NotACommand::NotUtf8 { valid_up_to }),
                Line::TooLong => Err(NotACommand::TooLong { limit }),
            };
            match command {
                Ok(command) => {
                    if self.command(&command)? == Flow::Closed {
                        return Ok(());
                    }
                }
                Err(fault) => self.malformed(number, &fault, progress),
            }
        }
    }

    fn command(&mut self, command: &AccountCommand) -> Result<Flow, Failure> {
        if self.gate.is_full() {
            // What is in the batch has to come out before anything comes in.
            self.end_batch();
        }
        if !self.gate.enter() {
            return Ok(Flow::Closed);
        }
        let value = serde_json::to_vec(&command.command).expect("a command is JSON");
        let record = NewRecord::to(topology::COMMANDS)
            .key(command.account.clone())
            .value(value)
            .timestamp_ms(i64::try_from(self.fed.commands).unwrap_or(i64::MAX));
        let producer = &self.producer;
        self.batch
            .get_or_insert_with(|| producer.begin())
            .send(record)
            .map_err(DemoError::from)?;
        self.fed.balances.replay(command);
        self.fed.commands += 1;
        self.in_batch += 1;
        if self.in_batch == self.pace.batch {
            self.end_batch();
        }
        Ok(Flow::More)
    }

    fn malformed(&mut self, number: u64, fault: &NotACommand, progress: &Progress) {
        self.fed.malformed += 1;
        if self.fed.malformed <= SHOWN {
            progress.say(&format!("line {number}: {fault}"));
        }
    }

    fn end_batch(&mut self) {
        self.in_batch = 0;
        if let Some(batch) = self.batch.take() {
            let _ = batch.commit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_replay_stops_at_the_ends_of_a_balance() {
        let mut balances = Balances::default();
        let mut replay = |command| {
            balances.replay(&AccountCommand {
                account: "a".to_owned(),
                command,
            })
        };
        replay(Command::Withdraw(1));
        replay(Command::Deposit(u64::MAX));
        replay(Command::Deposit(1));
        assert!(balances.are(&BTreeMap::from([("a".to_owned(), u64::MAX)])));
        assert!(!balances.are(&BTreeMap::from([("a".to_owned(), 0)])));
        assert!(!balances.are(&BTreeMap::new()));
        assert!(!balances.are(&BTreeMap::from([
            ("a".to_owned(), u64::MAX),
            ("b".to_owned(), 0)
        ])));
    }
}
