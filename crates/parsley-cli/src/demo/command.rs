//! What the demo is asked to do: deposits and withdrawals.

use serde::{Deserialize, Serialize};

use crate::object::{self, Misshapen, Object, present};

/// The longest name of an account, in bytes. Accounts are kept as long as the demo runs.
pub const ACCOUNT_BYTES_MAX: usize = 256;

/// One command on an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Command {
    /// Adds to the balance.
    Deposit(u64),
    /// Takes from the balance, if there is enough.
    Withdraw(u64),
}

/// A command and the account it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountCommand {
    /// The account.
    pub account: String,
    /// What to do with it.
    pub command: Command,
}

/// A line of input is not a command.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotACommand {
    /// It is not JSON, or of another shape.
    #[error(transparent)]
    Shape(#[from] Misshapen),
    /// It says neither how much to deposit nor how much to withdraw.
    #[error("found neither `deposit` nor `withdraw`, expected one of them")]
    Neither,
    /// It says both.
    #[error("found `deposit` and `withdraw`, expected one of them")]
    Both,
    /// The account's name is too long.
    #[error("found an account of {bytes} bytes, expected at most {ACCOUNT_BYTES_MAX}")]
    Account {
        /// How long it is.
        bytes: usize,
    },
    /// The line is not text.
    #[error("not UTF-8 from byte {valid_up_to} on, expected a line of JSON")]
    NotUtf8 {
        /// How many bytes are.
        valid_up_to: usize,
    },
    /// The line is longer than any command.
    #[error("longer than {limit} bytes, expected a line that fits")]
    TooLong {
        /// The longest line that is read.
        limit: usize,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CommandLine {
    account: String,
    #[serde(default, deserialize_with = "present")]
    deposit: Option<Amount>,
    #[serde(default, deserialize_with = "present")]
    withdraw: Option<Amount>,
}

/// An amount.
struct Amount(u64);

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        object::whole(deserializer, 0, u64::MAX.into()).map(Self)
    }
}

/// Reads a line of input.
pub fn parse(line: &str) -> Result<AccountCommand, NotACommand> {
    let Object(CommandLine {
        account,
        deposit,
        withdraw,
    }) = object::read(line)?;
    if account.len() > ACCOUNT_BYTES_MAX {
        return Err(NotACommand::Account {
            bytes: account.len(),
        });
    }
    let command = match (deposit, withdraw) {
        (Some(Amount(amount)), None) => Command::Deposit(amount),
        (None, Some(Amount(amount))) => Command::Withdraw(amount),
        (None, None) => return Err(NotACommand::Neither),
        (Some(_), Some(_)) => return Err(NotACommand::Both),
    };
    Ok(AccountCommand { account, command })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(line: &str) -> String {
        parse(line).expect_err(line).to_string()
    }

    #[test]
    fn a_command_is_an_account_and_an_amount() {
        let command = |account: &str, command| AccountCommand {
            account: account.to_owned(),
            command,
        };
        assert_eq!(
            parse(r#"{"account":"a","deposit":5}"#),
            Ok(command("a", Command::Deposit(5)))
        );
        assert_eq!(
            parse(r#" {"withdraw": 0, "account": ""} "#),
            Ok(command("", Command::Withdraw(0)))
        );
        let most = format!(r#"{{"account":"a","deposit":{}}}"#, u64::MAX);
        assert_eq!(parse(&most), Ok(command("a", Command::Deposit(u64::MAX))));
    }

    #[test]
    fn anything_else_says_what_was_found_and_what_was_expected() {
        assert_eq!(
            fault(r#"{"account":"a"}"#),
            "found neither `deposit` nor `withdraw`, expected one of them"
        );
        assert_eq!(
            fault(r#"{"account":"a","deposit":1,"withdraw":1}"#),
            "found `deposit` and `withdraw`, expected one of them"
        );
        for (line, expected) in [
            ("", "found the end of the line, expected a value"),
            ("deposit 5", "found no JSON, expected a value"),
            ("[]", "found an array, expected an object"),
            (r#"["a", 5]"#, "found an array, expected an object"),
            (
                r#"{"deposit":5}"#,
                "found no key `account`, expected it in this object",
            ),
            (
                r#"{"account":null,"deposit":5}"#,
                "found null, expected a string",
            ),
            (
                r#"{"account":"a","deposit":"5"}"#,
                "found the string \"5\", expected a whole number from 0 to 18446744073709551615",
            ),
            (
                r#"{"account":"a","deposit":-5}"#,
                "found -5, expected a whole number from 0 to 18446744073709551615",
            ),
            (
                r#"{"account":"a","deposit":null}"#,
                "found null, expected a whole number",
            ),
            (
                r#"{"account":"a","deposit":5.0}"#,
                "found 5.0, expected a whole number",
            ),
            (
                r#"{"account":"a","deposit":18446744073709551616}"#,
                "found a number above 18446744073709551615, expected",
            ),
            (
                r#"{"account":"a","deposit":5,"deposit":6}"#,
                "found `deposit` twice, expected it once",
            ),
            (
                r#"{"account":"a","deposit":5,"memo":""}"#,
                "found the unknown key `memo`, expected one of",
            ),
            (
                r#"{"account":"a","deposit":5} x"#,
                "found more behind the value",
            ),
        ] {
            let found = fault(line);
            assert!(
                found.starts_with("column ") && found.contains(expected),
                "{line}: {found}"
            );
        }
    }

    /// Names of up to 64 KiB were kept, several times over, for as long as the demo ran.
    #[test]
    fn an_account_has_a_name_of_at_most_256_bytes() {
        let line = |bytes: usize| format!(r#"{{"account":"{}","deposit":5}}"#, "x".repeat(bytes));
        assert!(parse(&line(256)).is_ok());
        assert_eq!(
            fault(&line(257)),
            "found an account of 257 bytes, expected at most 256"
        );
    }
}
