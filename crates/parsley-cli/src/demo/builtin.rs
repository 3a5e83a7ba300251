//! The commands that the demo runs without input: always the same.

use std::io::{BufReader, Cursor};

use super::command::{AccountCommand, Command};
use crate::input::Reader;

/// How many there are.
pub const COMMANDS: usize = 1000;

const ACCOUNTS: [&str; 36] = [
    "ada",
    "alan",
    "alonzo",
    "barbara",
    "blaise",
    "charles",
    "clara",
    "david",
    "donald",
    "edsger",
    "emmy",
    "frances",
    "george",
    "gottfried",
    "grace",
    "hedy",
    "henri",
    "ida",
    "joan",
    "john",
    "kurt",
    "leonhard",
    "leslie",
    "lynn",
    "margaret",
    "mary",
    "nancy",
    "niklaus",
    "pierre",
    "radia",
    "robin",
    "sofia",
    "sophie",
    "tony",
    "ursula",
    "wilhelm",
];

/// A sequence of numbers that look random (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// The commands, in order. Some withdrawals ask for more than there is.
fn commands() -> impl Iterator<Item = AccountCommand> {
    let mut numbers = Numbers(1978);
    (0..COMMANDS).map(move |_| {
        let account =
            ACCOUNTS[usize::try_from(numbers.below(ACCOUNTS.len() as u64)).unwrap_or(0)].to_owned();
        let command = match numbers.below(5) {
            0..3 => Command::Deposit(1 + numbers.below(100)),
            _ => Command::Withdraw(1 + numbers.below(80)),
        };
        AccountCommand { account, command }
    })
}

/// The commands as an input, one a line.
pub fn reader() -> Reader {
    let line = |AccountCommand { account, command }| match command {
        Command::Deposit(amount) => {
            format!("{{\"account\":\"{account}\",\"deposit\":{amount}}}\n")
        }
        Command::Withdraw(amount) => {
            format!("{{\"account\":\"{account}\",\"withdraw\":{amount}}}\n")
        }
    };
    let text: String = commands().map(line).collect();
    BufReader::with_capacity(1 << 16, Box::new(Cursor::new(text)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::BufRead;

    use super::*;
    use crate::demo::command;

    #[test]
    fn the_lines_are_the_commands() {
        let lines = reader().lines().map(|line| command::parse(&line.unwrap()));
        assert!(lines.map(Result::unwrap).eq(commands()));
    }

    #[test]
    fn the_commands_are_the_same_each_time_and_a_few_are_to_be_rejected() {
        let commands: Vec<AccountCommand> = super::commands().collect();
        assert!(commands.iter().eq(&super::commands().collect::<Vec<_>>()));
        let mut balances: BTreeMap<&str, u64> = BTreeMap::new();
        let mut rejected = 0;
        for AccountCommand { account, command } in &commands {
            let balance = balances.entry(account).or_default();
            match command {
                Command::Deposit(amount) => *balance += amount,
                Command::Withdraw(amount) if amount <= balance => *balance -= amount,
                Command::Withdraw(_) => rejected += 1,
            }
        }
        assert_eq!(
            (commands.len(), balances.len(), rejected),
            (COMMANDS, ACCOUNTS.len(), 49)
        );
    }
}
