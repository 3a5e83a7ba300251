//! The accounts as they have to end: the commands replayed, one after the other, with no part of the application.

use std::collections::BTreeMap;

use super::command::{AccountCommand, Command};
use super::error::DemoError;
use super::ground::Ground;
use super::topology::COMMANDS;

/// Balances by account.
#[derive(Debug, Default)]
pub struct Balances(BTreeMap<String, i128>);

impl Balances {
    /// What the commands in a log come to. Those of an account stand on one partition, in their order.
    pub fn of_log(ground: &dyn Ground) -> Result<Self, DemoError> {
        let mut balances = Self::default();
        let mut commands = ground.reader(COMMANDS)?;
        loop {
            let records = commands.read_on()?;
            if records.is_empty() {
                return Ok(balances);
            }
            for record in records {
                let corrupt = |reason: String| DemoError::Record {
                    topic: COMMANDS.to_owned(),
                    partition: record.channel.partition,
                    offset: record.offset,
                    reason,
                };
                let account = str::from_utf8(record.key.as_deref().unwrap_or_default())
                    .map_err(|error| corrupt(error.to_string()))?;
                let command = serde_json::from_slice(record.value.as_deref().unwrap_or_default())
                    .map_err(|error| corrupt(error.to_string()))?;
                balances.replay_on(account, command);
            }
        }
    }

    /// Replays one more command.
    pub fn replay(&mut self, AccountCommand { account, command }: &AccountCommand) {
        self.replay_on(account, *command);
    }

    fn replay_on(&mut self, account: &str, command: Command) {
        let change = match command {
            Command::Deposit(amount) => i128::from(amount),
            Command::Withdraw(amount) => -i128::from(amount),
        };
        let before = match self.0.get_mut(account) {
            Some(balance) => balance,
            None => self.0.entry(account.to_owned()).or_default(),
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
