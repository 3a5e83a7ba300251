//! Checks a trace of the demo. It knows the shape of the topology and of the trace, and shares no code with the program.
//!
//! Real causality is rebuilt from who was handed what before who sent what: a record's past is what the task that sent it had been
//! delivered up to the delivery it came of, and the past of all that. No clock and no stamp is used for it; the clocks are checked apart.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

/// A channel, by a number of its own.
type Channel = usize;
/// The highest offset of each channel.
type Past = BTreeMap<Channel, i64>;

/// An account after all commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// The balance.
    pub balance: u64,
    /// How many commands were rejected.
    pub rejected: u64,
}

impl Account {
    fn change(&mut self, after: Option<u64>) {
        match after {
            Some(balance) => self.balance = balance,
            None => self.rejected += 1,
        }
    }
}

/// What a trace comes to.
#[derive(Debug, Default)]
pub struct Checked {
    /// What contradicts itself.
    pub faults: Vec<String>,
    /// Deliveries.
    pub deliveries: u64,
    /// Different commands.
    pub commands: u64,
    /// Deliveries that came before something of their real past that the task was handed later, or not at all.
    pub inversions_by_causality: u64,
    /// Deliveries that came before something their clock claims.
    pub inversions_by_claims: u64,
    /// Deliveries that would have come before something of their real past in the order of arrival.
    pub inversions_by_arrival: u64,
    /// The commands on each account in the order of their offsets: what is deposited, and what is withdrawn as a negative number.
    pub asked: BTreeMap<String, Vec<i128>>,
    /// The accounts that the commands come to.
    pub replayed: BTreeMap<String, Account>,
    /// The accounts that the last views show.
    pub shown: BTreeMap<String, Account>,
}

impl Checked {
    /// Whether the views show what the commands come to.
    pub fn views_match(&self) -> bool {
        self.replayed == self.shown
    }

    fn commands_of(&mut self, account: &str) -> &mut Vec<i128> {
        self.asked.entry(account.to_owned()).or_default()
    }
}

/// A line of the trace, with its channels as numbers: a trace may have many lines.
struct Delivery {
    stage: Stage,
    partition: i64,
    topic: Topic,
    channel: Channel,
    offset: i64,
    key: Box<str>,
    said: Said,
    claims: Vec<(Channel, i64)>,
    arrival: u64,
    delivery: u64,
    sent: Vec<Sent>,
}

/// The stages, in the order in which records flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Stage {
    Commander,
    Projector,
    Reconciler,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Topic {
    Commands,
    Events,
    Views,
    Findings,
}

/// What a record says, as far as it matters here.
#[derive(Clone, Copy)]
enum Said {
    Deposit(u64),
    Withdraw(u64),
    Balance(Account),
    Other,
}

/// A record that was sent for a delivery.
struct Sent {
    topic: Topic,
    channel: Channel,
    offset: i64,
    sequence: i64,
}

/// A line as it stands in the trace.
#[derive(Deserialize)]
struct Line<'a> {
    stage: Stage,
    partition: i64,
    topic: Topic,
    #[serde(borrow)]
    channel: &'a str,
    offset: i64,
    key: Box<str>,
    value: ValueLine,
    #[serde(borrow)]
    clock: ClockLine<'a>,
    arrival: u64,
    delivery: u64,
    #[serde(borrow)]
    sent: Vec<SentLine<'a>>,
}

/// Other fields than these are of no interest here.
#[derive(Deserialize)]
struct ValueLine {
    deposit: Option<u64>,
    withdraw: Option<u64>,
    balance: Option<u64>,
    rejected: Option<u64>,
}

#[derive(Deserialize)]
struct ClockLine<'a> {
    #[serde(borrow)]
    offsets: Vec<ClaimLine<'a>>,
}

#[derive(Deserialize)]
struct ClaimLine<'a> {
    topic: &'a str,
    partition: i64,
    offset: i64,
}

#[derive(Deserialize)]
struct SentLine<'a> {
    topic: Topic,
    channel: &'a str,
    offset: i64,
    sequence: i64,
}

/// Gives each channel a number.
#[derive(Default)]
struct Channels(BTreeMap<String, Channel>);

impl Channels {
    fn number(&mut self, channel: &str) -> Channel {
        if let Some(number) = self.0.get(channel) {
            return *number;
        }
        let number = self.0.len();
        self.0.insert(channel.to_owned(), number);
        number
    }
}

fn read(trace: &str) -> Vec<Delivery> {
    let mut channels = Channels::default();
    let mut delivery = |line: &str| {
        let Line {
            stage,
            partition,
            topic,
            channel,
            offset,
            key,
            value,
            clock,
            arrival,
            delivery,
            sent,
        } = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let said = match (topic, value.deposit, value.withdraw) {
            (Topic::Commands, Some(amount), None) => Said::Deposit(amount),
            (Topic::Commands, None, Some(amount)) => Said::Withdraw(amount),
            (Topic::Commands, ..) => panic!("no command: {line}"),
            (Topic::Views, ..) => Said::Balance(Account {
                balance: value.balance.expect("a balance"),
                rejected: value.rejected.expect("a number"),
            }),
            _ => Said::Other,
        };
        let claim = |claim: ClaimLine<'_>| {
            let channel = format!("{}:{}", claim.topic, claim.partition);
            (channels.number(&channel), claim.offset)
        };
        let claims = clock.offsets.into_iter().map(claim).collect();
        let sent = sent.into_iter().map(|sent| Sent {
            topic: sent.topic,
            channel: channels.number(sent.channel),
            offset: sent.offset,
            sequence: sent.sequence,
        });
        Delivery {
            sent: sent.collect(),
            stage,
            partition,
            topic,
            channel: channels.number(channel),
            offset,
            key,
            said,
            claims,
            arrival,
            delivery,
        }
    };
    trace.lines().map(&mut delivery).collect()
}

/// Checks a trace.
pub fn check(trace: &str) -> Checked {
    let deliveries = read(trace);
    let mut checked = Checked {
        deliveries: deliveries.len() as u64,
        ..Checked::default()
    };
    // The lines of one task stand in the order of its deliveries; those of different tasks may be interleaved anyhow.
    let mut tasks = Tasks::new();
    for delivery in &deliveries {
        tasks
            .entry((delivery.stage, delivery.partition))
            .or_default()
            .push(delivery);
    }
    let pasts = pasts(&tasks, &mut checked.faults);
    for task in tasks.values() {
        check_task(task, &pasts, &mut checked);
    }
    check_records(&deliveries, &mut checked);
    replay(&tasks, &mut checked);
    checked
}

type Tasks<'a> = BTreeMap<(Stage, i64), Vec<&'a Delivery>>;

/// The past of every record that a stage sent, by channel and offset.
fn pasts(tasks: &Tasks<'_>, faults: &mut Vec<String>) -> BTreeMap<(Channel, i64), Past> {
    let mut pasts = BTreeMap::new();
    // Records flow one way, so each stage's records are known before the next stage's are looked at.
    for task in tasks.values() {
        let mut past = Past::new();
        let mut sequences = BTreeMap::new();
        for delivery in task {
            if let Some(before) = pasts.get(&(delivery.channel, delivery.offset)) {
                join(&mut past, before);
            }
            reach(&mut past, delivery.channel, delivery.offset);
            for sent in &delivery.sent {
                let (channel, offset) = (sent.channel, sent.offset);
                let expected: &mut i64 = sequences.entry(channel).or_default();
                if sent.sequence != *expected {
                    faults.push(format!(
                        "send {} to {channel}, expected {expected}",
                        sent.sequence
                    ));
                }
                *expected = sent.sequence + 1;
                if pasts.insert((channel, offset), past.clone()).is_some() {
                    faults.push(format!("{channel}@{offset} was sent twice"));
                }
                reach(&mut past, channel, offset);
            }
        }
    }
    pasts
}

fn join(past: &mut Past, other: &Past) {
    for (channel, offset) in other {
        reach(past, *channel, *offset);
    }
}

fn reach(past: &mut Past, channel: Channel, offset: i64) {
    let highest = past.entry(channel).or_insert(offset);
    *highest = (*highest).max(offset);
}

fn check_task(task: &[&Delivery], pasts: &BTreeMap<(Channel, i64), Past>, checked: &mut Checked) {
    // What the task is ever handed, by channel.
    let mut handed: BTreeMap<Channel, BTreeSet<i64>> = BTreeMap::new();
    for delivery in task {
        if !handed
            .entry(delivery.channel)
            .or_default()
            .insert(delivery.offset)
        {
            checked.faults.push(format!(
                "{}@{} is delivered twice",
                delivery.channel, delivery.offset
            ));
        }
    }
    let past_of = |delivery: &Delivery| {
        let mut past = pasts
            .get(&(delivery.channel, delivery.offset))
            .cloned()
            .unwrap_or_default();
        past.retain(|channel, _| handed.contains_key(channel) && *channel != delivery.channel);
        past
    };
    // How many records of the past a task has to have been handed, and how many it has.
    let is_before = |seen: &Past, delivery: &Delivery, past: &Past| {
        let lacks = |channel: Channel, upto: i64| {
            let last = handed
                .get(&channel)
                .and_then(|offsets| offsets.range(..=upto).next_back());
            last.is_some() && seen.get(&channel) < last
        };
        past.iter()
            .any(|(channel, offset)| lacks(*channel, *offset))
            || seen
                .get(&delivery.channel)
                .is_some_and(|last| *last >= delivery.offset)
    };

    let mut seen = Past::new();
    for (number, delivery) in task.iter().enumerate() {
        let past = past_of(delivery);
        checked.inversions_by_causality += u64::from(is_before(&seen, delivery, &past));
        let mut claimed: Past = delivery.claims.iter().copied().collect();
        claimed.retain(|channel, _| handed.contains_key(channel) && *channel != delivery.channel);
        checked.inversions_by_claims += u64::from(is_before(&seen, delivery, &claimed));
        if past
            .iter()
            .any(|(channel, offset)| claimed.get(channel) < Some(offset))
        {
            checked.faults.push(format!(
                "the clock of {}@{} claims too little",
                delivery.channel, delivery.offset
            ));
        }
        if delivery.delivery != number as u64 {
            checked.faults.push(format!(
                "{}@{} is not delivery {number}",
                delivery.channel, delivery.offset
            ));
        }
        seen.insert(delivery.channel, delivery.offset);
    }

    let mut arrivals: Vec<&&Delivery> = task.iter().collect();
    arrivals.sort_by_key(|delivery| delivery.arrival);
    let mut seen = Past::new();
    for (number, delivery) in arrivals.iter().enumerate() {
        if delivery.arrival != number as u64 {
            checked.faults.push(format!(
                "arrival {} of {:?} stands at {number}",
                delivery.arrival, delivery.stage
            ));
        }
        checked.inversions_by_arrival += u64::from(is_before(&seen, delivery, &past_of(delivery)));
        seen.insert(delivery.channel, delivery.offset);
    }
}

/// Everything sent is delivered where it has to be, and everything delivered was sent (commands come from outside).
fn check_records(deliveries: &[Delivery], checked: &mut Checked) {
    let mut delivered: BTreeMap<(Stage, Topic), BTreeSet<(Channel, i64)>> = BTreeMap::new();
    let mut sent: BTreeMap<Topic, BTreeSet<(Channel, i64)>> = BTreeMap::new();
    for delivery in deliveries {
        match (delivery.stage, delivery.topic) {
            (Stage::Commander | Stage::Reconciler, Topic::Commands)
            | (Stage::Projector, Topic::Events)
            | (Stage::Reconciler, Topic::Views) => {}
            other => checked.faults.push(format!("a delivery of {other:?}")),
        }
        delivered
            .entry((delivery.stage, delivery.topic))
            .or_default()
            .insert((delivery.channel, delivery.offset));
        for record in &delivery.sent {
            sent.entry(record.topic)
                .or_default()
                .insert((record.channel, record.offset));
        }
    }
    let delivered = |stage, topic| delivered.get(&(stage, topic)).cloned().unwrap_or_default();
    let sent = |topic| sent.get(&topic).cloned().unwrap_or_default();
    let commands = delivered(Stage::Commander, Topic::Commands);
    checked.commands = commands.len() as u64;
    for (what, same) in [
        (
            "commands",
            commands == delivered(Stage::Reconciler, Topic::Commands),
        ),
        (
            "events",
            sent(Topic::Events) == delivered(Stage::Projector, Topic::Events),
        ),
        (
            "views",
            sent(Topic::Views) == delivered(Stage::Reconciler, Topic::Views),
        ),
        ("findings", sent(Topic::Findings).is_empty()),
    ] {
        if !same {
            checked
                .faults
                .push(format!("the {what} are not as they have to be"));
        }
    }
}

/// Replays the commands in the order of their offsets, which is that of the input for each account.
fn replay(tasks: &Tasks<'_>, checked: &mut Checked) {
    for (_, task) in tasks
        .iter()
        .filter(|((stage, _), _)| *stage == Stage::Reconciler)
    {
        let mut deliveries = task.clone();
        deliveries.sort_by_key(|delivery| delivery.offset);
        for delivery in deliveries {
            match delivery.said {
                Said::Deposit(amount) => {
                    let account = account(&mut checked.replayed, &delivery.key);
                    account.change(account.balance.checked_add(amount));
                    checked.commands_of(&delivery.key).push(i128::from(amount));
                }
                Said::Withdraw(amount) => {
                    let account = account(&mut checked.replayed, &delivery.key);
                    account.change(account.balance.checked_sub(amount));
                    checked.commands_of(&delivery.key).push(-i128::from(amount));
                }
                Said::Balance(shown) => {
                    *account(&mut checked.shown, &delivery.key) = shown;
                }
                Said::Other => {}
            }
        }
    }
}

fn account<'a>(accounts: &'a mut BTreeMap<String, Account>, key: &str) -> &'a mut Account {
    accounts.entry(key.to_owned()).or_default()
}
