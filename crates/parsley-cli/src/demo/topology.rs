//! The demo's topology: `commands → commander → events → projector → views`, and a reconciler that reads `commands` and `views`.
//!
//! The commander decides, the projector shows, and the reconciler holds what is shown against what was asked for. It has to see a command
//! before the view that came of it, and that view has travelled through two stages while the command comes to it directly.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;

use parsley::{App, BuildError, Message, Outbox, Outcome, Stage, Topic, codec};
use serde::{Deserialize, Serialize};

use super::command::Command;

/// Names of topics and stages.
pub const COMMANDS: &str = "commands";
pub const EVENTS: &str = "events";
pub const VIEWS: &str = "views";
pub const FINDINGS: &str = "findings";
/// The account of deliveries, which is no topic of the application.
pub const AUDIT: &str = "demo-audit";
/// How much of the input was taken, which is none either.
pub const INPUT: &str = "demo-input";
pub const COMMANDER: &str = "commander";
pub const PROJECTOR: &str = "projector";
pub const RECONCILER: &str = "reconciler";

/// The header that says of which delivery an emission came.
pub const CAUSE_HEADER: &str = "cause";

/// Where a record stands, with its topic's name: `views:0@17`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct At {
    /// The topic's name.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}@{}", self.topic, self.partition, self.offset)
    }
}

/// Text is not a place.
#[derive(Debug, thiserror::Error)]
#[error("found `{0}`, expected `topic:partition@offset`")]
pub struct NotAPlace(String);

impl FromStr for At {
    type Err = NotAPlace;

    fn from_str(text: &str) -> Result<Self, NotAPlace> {
        let place = || {
            let (channel, offset) = text.rsplit_once('@')?;
            let (topic, partition) = channel.rsplit_once(':')?;
            Some(Self {
                topic: topic.to_owned(),
                partition: partition.parse().ok()?,
                offset: offset.parse().ok()?,
            })
        };
        place().ok_or_else(|| NotAPlace(text.to_owned()))
    }
}

/// What became of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The amount was added.
    Deposited(u64),
    /// The amount was taken.
    Withdrawn(u64),
    /// Nothing was done.
    Rejected(Rejection),
}

/// Why nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rejection {
    /// There is less than was to be taken.
    BalanceTooSmall,
    /// There would be more than an account can hold.
    BalanceTooLarge,
}

/// A record of `events`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The offset of the command.
    pub command: i64,
    /// What became of it.
    pub decision: Decision,
}

/// A record of `views`: an account as it is after a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// The offset of the command.
    pub command: i64,
    /// The balance.
    pub balance: u64,
    /// How many commands on the account were rejected.
    pub rejected: u64,
}

/// A record of `findings`: what the reconciler has to object to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// A view came, and its command had not.
    ViewBeforeCommand(View),
    /// A view shows another balance than the commands come to.
    BalanceDiffers {
        /// What is shown.
        view: View,
        /// What the commands come to.
        expected: u64,
    },
}

/// What the reconciler keeps of an account.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Expected {
    /// What the commands so far come to.
    balance: u64,
    /// For each command whose view has not come: its offset, and the balance after it.
    open: VecDeque<(i64, u64)>,
}

/// The application.
pub fn app() -> Result<App, BuildError> {
    let commands = Topic::new(COMMANDS, codec::string(), codec::json::<Command>());
    let events = Topic::new(EVENTS, codec::string(), codec::json::<Event>());
    let views = Topic::new(VIEWS, codec::string(), codec::json::<View>());
    let findings = Topic::new(FINDINGS, codec::string(), codec::json::<Finding>());

    let commander = Stage::stateful(COMMANDER, codec::string(), codec::u64())
        .sink(&events)
        .on(&commands, {
            let events = events.clone();
            move |balance, message, out| {
                let event = Event {
                    command: message.offset,
                    decision: decide(balance, message.value),
                };
                emit(out, &events, &message, &event)
            }
        })
        .build()?;

    let projector = Stage::stateful(PROJECTOR, codec::string(), codec::json::<View>())
        .sink(&views)
        .on(&events, {
            let views = views.clone();
            move |view: &mut View, message, out| {
                show(view, message.value)?;
                emit(out, &views, &message, view)
            }
        })
        .build()?;

    let reconciler = Stage::stateful(RECONCILER, codec::string(), codec::json::<Expected>())
        .sink(&findings)
        .on(&commands, |expected: &mut Expected, message, _out| {
            expect(expected, message.offset, message.value);
            Ok(())
        })
        .on(
            &views,
            move |expected: &mut Expected, message, out| match reconcile(expected, message.value) {
                None => Ok(()),
                Some(finding) => emit(out, &findings, &message, &finding),
            },
        )
        .build()?;

    App::named("demo")
        .stage(commander)
        .stage(projector)
        .stage(reconciler)
        .build()
}

/// Emits for a message, and says so in a header.
fn emit<V, W>(
    out: &mut Outbox,
    topic: &Topic<String, W>,
    message: &Message<String, V>,
    value: &W,
) -> Outcome {
    let cause = At {
        topic: message.topic.to_string(),
        partition: message.partition,
        offset: message.offset,
    };
    out.to(topic)
        .header(CAUSE_HEADER, cause.to_string())
        .send(&message.key, value)
}

fn decide(balance: &mut u64, command: Command) -> Decision {
    let (after, decision, rejection) = match command {
        Command::Deposit(amount) => (
            balance.checked_add(amount),
            Decision::Deposited(amount),
            Rejection::BalanceTooLarge,
        ),
        Command::Withdraw(amount) => (
            balance.checked_sub(amount),
            Decision::Withdrawn(amount),
            Rejection::BalanceTooSmall,
        ),
    };
    match after {
        Some(after) => {
            *balance = after;
            decision
        }
        None => Decision::Rejected(rejection),
    }
}

fn show(view: &mut View, event: Event) -> Outcome {
    view.command = event.command;
    match event.decision {
        Decision::Deposited(amount) => {
            view.balance = view
                .balance
                .checked_add(amount)
                .ok_or("a deposit past the end")?
        }
        Decision::Withdrawn(amount) => {
            view.balance = view
                .balance
                .checked_sub(amount)
                .ok_or("a withdrawal below 0")?;
        }
        Decision::Rejected(_) => view.rejected += 1,
    }
    Ok(())
}

/// The rules once more: the reconciler takes nobody's word for them.
fn expect(expected: &mut Expected, offset: i64, command: Command) {
    match command {
        Command::Deposit(amount) if amount <= u64::MAX - expected.balance => {
            expected.balance += amount
        }
        Command::Withdraw(amount) if amount <= expected.balance => expected.balance -= amount,
        Command::Deposit(_) | Command::Withdraw(_) => {}
    }
    expected.open.push_back((offset, expected.balance));
}

fn reconcile(expected: &mut Expected, view: View) -> Option<Finding> {
    match expected.open.front() {
        Some(&(command, balance)) if command == view.command => {
            expected.open.pop_front();
            (balance != view.balance).then_some(Finding::BalanceDiffers {
                view,
                expected: balance,
            })
        }
        _ => Some(Finding::ViewBeforeCommand(view)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn balances_stop_at_their_ends() {
        let mut balance = 0;
        assert_eq!(
            decide(&mut balance, Command::Withdraw(1)),
            Decision::Rejected(Rejection::BalanceTooSmall)
        );
        assert_eq!(
            decide(&mut balance, Command::Deposit(u64::MAX)),
            Decision::Deposited(u64::MAX)
        );
        assert_eq!(
            decide(&mut balance, Command::Deposit(1)),
            Decision::Rejected(Rejection::BalanceTooLarge)
        );
        assert_eq!(
            decide(&mut balance, Command::Withdraw(u64::MAX)),
            Decision::Withdrawn(u64::MAX)
        );
        assert_eq!(balance, 0);
        let mut expected = Expected::default();
        for command in [
            Command::Withdraw(1),
            Command::Deposit(u64::MAX),
            Command::Deposit(1),
            Command::Deposit(0),
            Command::Withdraw(u64::MAX),
        ] {
            expect(&mut expected, 0, command);
        }
        let balances: Vec<u64> = expected.open.iter().map(|(_, balance)| *balance).collect();
        assert_eq!(balances, [0, u64::MAX, u64::MAX, u64::MAX, 0]);
    }

    #[test]
    fn the_reconciler_objects_to_a_view_without_its_command_and_to_another_balance() {
        let mut expected = Expected::default();
        let view = |command, balance| View {
            command,
            balance,
            rejected: 0,
        };
        assert_eq!(
            reconcile(&mut expected, view(4, 5)),
            Some(Finding::ViewBeforeCommand(view(4, 5)))
        );
        expect(&mut expected, 4, Command::Deposit(5));
        expect(&mut expected, 6, Command::Deposit(1));
        assert_eq!(
            reconcile(&mut expected, view(6, 6)),
            Some(Finding::ViewBeforeCommand(view(6, 6)))
        );
        assert_eq!(reconcile(&mut expected, view(4, 5)), None);
        let differs = Finding::BalanceDiffers {
            view: view(6, 7),
            expected: 6,
        };
        assert_eq!(reconcile(&mut expected, view(6, 7)), Some(differs));
        assert_eq!(
            expected,
            Expected {
                balance: 6,
                open: VecDeque::new()
            }
        );
    }

    #[test]
    fn a_place_reads_as_it_is_written() {
        let at = At {
            topic: "a:b".to_owned(),
            partition: 3,
            offset: 17,
        };
        assert_eq!(at.to_string(), "a:b:3@17");
        assert_eq!(at.to_string().parse::<At>().unwrap(), at);
        for text in ["", "views", "views:0", "views@0", "views:x@0", "views:0@x"] {
            assert!(text.parse::<At>().is_err(), "{text}");
        }
    }
}
