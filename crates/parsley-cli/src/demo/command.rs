//! What the demo is asked to do: deposits and withdrawals.

use serde::{Deserialize, Serialize};

use crate::object::{self, Object, present};

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
    #[error("column {column}: {reason}")]
    Shape {
        /// Where in the line.
        column: usize,
        /// What was found and what was expected.
        reason: String,
    },
    /// It says neither how much to deposit nor how much to withdraw.
    #[error("found neither `deposit` nor `withdraw`, expected one of them")]
    Neither,
    /// It says both.
    #[error("found `deposit` and `withdraw`, expected one of them")]
    Both,
    /// An amount is below 0.
    #[error("found `{field}` of {found}, expected at least 0")]
    Negative {
        /// `deposit` or `withdraw`.
        field: &'static str,
        /// The amount.
        found: i64,
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

/// An integer: what is below 0 is told apart from what is no integer.
#[derive(Clone, Copy)]
enum Amount {
    Positive(u64),
    Negative(i64),
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AmountVisitor;

        impl serde::de::Visitor<'_> for AmountVisitor {
            type Value = Amount;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "an integer from 0 to {}", u64::MAX)
            }

            fn visit_u64<E>(self, amount: u64) -> Result<Amount, E> {
                Ok(Amount::Positive(amount))
            }

            fn visit_i64<E>(self, amount: i64) -> Result<Amount, E> {
                Ok(u64::try_from(amount).map_or(Amount::Negative(amount), Amount::Positive))
            }
        }

        deserializer.deserialize_u64(AmountVisitor)
    }
}

/// Reads a line of input.
pub fn parse(line: &str) -> Result<AccountCommand, NotACommand> {
    let Object(CommandLine {
        account,
        deposit,
        withdraw,
    }) = serde_json::from_str(line).map_err(|error| {
        let (reason, column) = object::fault(&error);
        NotACommand::Shape { column, reason }
    })?;
    let (field, amount, command): (_, _, fn(u64) -> Command) = match (deposit, withdraw) {
        (Some(amount), None) => ("deposit", amount, Command::Deposit),
        (None, Some(amount)) => ("withdraw", amount, Command::Withdraw),
        (None, None) => return Err(NotACommand::Neither),
        (Some(_), Some(_)) => return Err(NotACommand::Both),
    };
    match amount {
        Amount::Positive(amount) => Ok(AccountCommand {
            account,
            command: command(amount),
        }),
        Amount::Negative(found) => Err(NotACommand::Negative { field, found }),
    }
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
        assert_eq!(
            fault(r#"{"account":"a","deposit":-5}"#),
            "found `deposit` of -5, expected at least 0"
        );
        assert_eq!(
            fault(&format!(r#"{{"account":"a","withdraw":{}}}"#, i64::MIN)),
            format!("found `withdraw` of {}, expected at least 0", i64::MIN)
        );
        for (line, expected) in [
            ("", "EOF"),
            ("deposit 5", "expected value"),
            ("[]", "invalid type: sequence, expected an object"),
            (r#"["a", 5]"#, "invalid type: sequence, expected an object"),
            (r#"{"deposit":5}"#, "missing field `account`"),
            (
                r#"{"account":null,"deposit":5}"#,
                "invalid type: null, expected a string",
            ),
            (
                r#"{"account":7,"deposit":5}"#,
                "invalid type: integer `7`, expected a string",
            ),
            (
                r#"{"account":"a","deposit":"5"}"#,
                "invalid type: string \"5\", expected an integer from 0 to",
            ),
            (
                r#"{"account":"a","deposit":null}"#,
                "invalid type: null, expected an integer",
            ),
            (
                r#"{"account":"a","deposit":5.0}"#,
                "invalid type: floating point",
            ),
            (
                r#"{"account":"a","deposit":18446744073709551616}"#,
                "invalid type: floating point",
            ),
            (
                r#"{"account":"a","deposit":-9223372036854775809}"#,
                "invalid type: floating point",
            ),
            (
                r#"{"account":"a","deposit":5,"deposit":6}"#,
                "duplicate field `deposit`",
            ),
            (
                r#"{"account":"a","deposit":5,"memo":""}"#,
                "unknown field `memo`, expected one of",
            ),
            (r#"{"account":"a","deposit":5} x"#, "trailing characters"),
        ] {
            let found = fault(line);
            assert!(
                found.starts_with("column ") && found.contains(expected),
                "{line}: {found}"
            );
        }
    }
}
