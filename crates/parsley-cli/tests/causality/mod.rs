//! Checks a trace of the demo. It knows the shape of the topology and of the trace, and shares no code with the program.
//!
//! Real causality is rebuilt from who was handed what before who sent what: a record's past is what the task that sent it had been
//! delivered up to the delivery it came of, and the past of all that. No clock and no stamp is used for it; the clocks are checked apart.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

type Channel = String;
/// The highest offset of each channel.
type Past = BTreeMap<Channel, i64>;

/// An account after all commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// The balance.
    pub balance: u64,
    /// How many commands were rejected.
    pub rejected: u64,
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
}

/// A line of the trace.
struct Delivery {
    stage: String,
    partition: i64,
    topic: String,
    channel: Channel,
    offset: i64,
    arrival: u64,
    line: Value,
}

fn text(line: &Value, field: &str) -> String {
    line[field]
        .as_str()
        .unwrap_or_else(|| panic!("{field} of {line}"))
        .to_owned()
}

fn integer(line: &Value, field: &str) -> i64 {
    line[field]
        .as_i64()
        .unwrap_or_else(|| panic!("{field} of {line}"))
}

fn read(trace: &str) -> Vec<Delivery> {
    let delivery = |line: &str| {
        let line: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        Delivery {
            stage: text(&line, "stage"),
            partition: integer(&line, "partition"),
            topic: text(&line, "topic"),
            channel: text(&line, "channel"),
            offset: integer(&line, "offset"),
            arrival: line["arrival"].as_u64().expect("an arrival"),
            line,
        }
    };
    trace.lines().map(delivery).collect()
}

/// Checks a trace.
pub fn check(trace: &str) -> Checked {
    let deliveries = read(trace);
    let mut checked = Checked {
        deliveries: deliveries.len() as u64,
        ..Checked::default()
    };
    // The lines of one task stand in the order of its deliveries; those of different tasks may be interleaved anyhow.
    let mut tasks: BTreeMap<(&str, i64), Vec<&Delivery>> = BTreeMap::new();
    for delivery in &deliveries {
        tasks
            .entry((&delivery.stage, delivery.partition))
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

/// The past of every record that a stage sent, by channel and offset.
fn pasts(
    tasks: &BTreeMap<(&str, i64), Vec<&Delivery>>,
    faults: &mut Vec<String>,
) -> BTreeMap<(Channel, i64), Past> {
    let mut pasts = BTreeMap::new();
    // Records flow one way, so each stage's records are known before the next stage's are looked at.
    for stage in ["commander", "projector", "reconciler"] {
        for (_, task) in tasks.iter().filter(|((name, _), _)| *name == stage) {
            let mut past = Past::new();
            let mut sequences = BTreeMap::new();
            for delivery in task {
                if let Some(before) = pasts.get(&(delivery.channel.clone(), delivery.offset)) {
                    join(&mut past, before);
                }
                join(
                    &mut past,
                    &Past::from([(delivery.channel.clone(), delivery.offset)]),
                );
                for sent in delivery.line["sent"].as_array().expect("what was sent") {
                    let (channel, offset) = (text(sent, "channel"), integer(sent, "offset"));
                    let sequence = integer(sent, "sequence");
                    let expected: &mut i64 = sequences.entry(channel.clone()).or_default();
                    if sequence != *expected {
                        faults.push(format!("send {sequence} to {channel}, expected {expected}"));
                    }
                    *expected = sequence + 1;
                    if pasts
                        .insert((channel.clone(), offset), past.clone())
                        .is_some()
                    {
                        faults.push(format!("{channel}@{offset} was sent twice"));
                    }
                    join(&mut past, &Past::from([(channel, offset)]));
                }
            }
        }
    }
    pasts
}

fn join(past: &mut Past, other: &Past) {
    for (channel, offset) in other {
        let highest = past.entry(channel.clone()).or_insert(*offset);
        *highest = (*highest).max(*offset);
    }
}

fn check_task(task: &[&Delivery], pasts: &BTreeMap<(Channel, i64), Past>, checked: &mut Checked) {
    // What the task is ever handed, by channel.
    let mut handed: BTreeMap<&str, BTreeSet<i64>> = BTreeMap::new();
    for delivery in task {
        if !handed
            .entry(&delivery.channel)
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
            .get(&(delivery.channel.clone(), delivery.offset))
            .cloned()
            .unwrap_or_default();
        past.retain(|channel, _| {
            handed.contains_key(channel.as_str()) && *channel != delivery.channel
        });
        past
    };
    // How many records of the past a task has to have been handed, and how many it has.
    let is_before = |seen: &Past, delivery: &Delivery, past: &Past| {
        let lacks = |channel: &str, upto: i64| {
            let due = handed
                .get(channel)
                .is_some_and(|offsets| offsets.range(..=upto).next().is_some());
            let last = handed
                .get(channel)
                .and_then(|offsets| offsets.range(..=upto).next_back());
            due && seen.get(channel) < last
        };
        past.iter().any(|(channel, offset)| lacks(channel, *offset))
            || seen
                .get(&delivery.channel)
                .is_some_and(|last| *last >= delivery.offset)
    };

    let mut seen = Past::new();
    for (number, delivery) in task.iter().enumerate() {
        checked.inversions_by_causality +=
            u64::from(is_before(&seen, delivery, &past_of(delivery)));
        let mut claimed = Past::new();
        for claim in delivery.line["clock"]["offsets"]
            .as_array()
            .expect("claims")
        {
            let channel = format!("{}:{}", text(claim, "topic"), integer(claim, "partition"));
            if handed.contains_key(channel.as_str()) && channel != delivery.channel {
                claimed.insert(channel, integer(claim, "offset"));
            }
        }
        checked.inversions_by_claims += u64::from(is_before(&seen, delivery, &claimed));
        if past_of(delivery)
            .iter()
            .any(|(channel, offset)| claimed.get(channel) < Some(offset))
        {
            checked.faults.push(format!(
                "the clock of {}@{} claims too little",
                delivery.channel, delivery.offset
            ));
        }
        if delivery.line["delivery"].as_u64() != Some(number as u64) {
            checked.faults.push(format!(
                "{}@{} is not delivery {number}",
                delivery.channel, delivery.offset
            ));
        }
        seen.insert(delivery.channel.clone(), delivery.offset);
    }

    let mut arrivals: Vec<&&Delivery> = task.iter().collect();
    arrivals.sort_by_key(|delivery| delivery.arrival);
    let mut seen = Past::new();
    for (number, delivery) in arrivals.iter().enumerate() {
        if delivery.arrival != number as u64 {
            checked.faults.push(format!(
                "arrival {} of {} stands at {number}",
                delivery.arrival, delivery.stage
            ));
        }
        checked.inversions_by_arrival += u64::from(is_before(&seen, delivery, &past_of(delivery)));
        seen.insert(delivery.channel.clone(), delivery.offset);
    }
}

/// Everything sent is delivered where it has to be, and everything delivered was sent (commands come from outside).
fn check_records(deliveries: &[Delivery], checked: &mut Checked) {
    let mut at: BTreeMap<&str, BTreeSet<(&str, i64)>> = BTreeMap::new();
    let mut sent: BTreeMap<String, BTreeSet<(String, i64)>> = BTreeMap::new();
    for delivery in deliveries {
        let reader = match (&*delivery.stage, &*delivery.topic) {
            ("commander", "commands") => "commander",
            ("projector", "events") => "projector",
            ("reconciler", "commands") => "reconciler of commands",
            ("reconciler", "views") => "reconciler of views",
            other => {
                checked.faults.push(format!("a delivery of {other:?}"));
                continue;
            }
        };
        at.entry(reader)
            .or_default()
            .insert((&delivery.channel, delivery.offset));
        for record in delivery.line["sent"].as_array().expect("what was sent") {
            sent.entry(text(record, "topic"))
                .or_default()
                .insert((text(record, "channel"), integer(record, "offset")));
        }
    }
    let delivered = |reader: &str| -> BTreeSet<(String, i64)> {
        at.get(reader)
            .into_iter()
            .flatten()
            .map(|(channel, offset)| ((*channel).to_owned(), *offset))
            .collect()
    };
    let sent = |topic: &str| sent.get(topic).cloned().unwrap_or_default();
    checked.commands = delivered("commander").len() as u64;
    for (what, same) in [
        (
            "commands",
            delivered("commander") == delivered("reconciler of commands"),
        ),
        ("events", sent("events") == delivered("projector")),
        ("views", sent("views") == delivered("reconciler of views")),
        ("findings", sent("findings").is_empty()),
    ] {
        if !same {
            checked
                .faults
                .push(format!("the {what} are not as they have to be"));
        }
    }
}

fn replay(tasks: &BTreeMap<(&str, i64), Vec<&Delivery>>, checked: &mut Checked) {
    for (_, task) in tasks
        .iter()
        .filter(|((stage, _), _)| *stage == "reconciler")
    {
        let mut commands: Vec<&&Delivery> = task
            .iter()
            .filter(|delivery| delivery.topic == "commands")
            .collect();
        commands.sort_by_key(|delivery| delivery.offset);
        for delivery in commands {
            let account = checked
                .replayed
                .entry(text(&delivery.line, "key"))
                .or_default();
            let value = &delivery.line["value"];
            let after = match (value["deposit"].as_u64(), value["withdraw"].as_u64()) {
                (Some(amount), None) => account.balance.checked_add(amount),
                (None, Some(amount)) => account.balance.checked_sub(amount),
                _ => panic!("no command: {value}"),
            };
            match after {
                Some(balance) => account.balance = balance,
                None => account.rejected += 1,
            }
        }
        let mut views: Vec<&&Delivery> = task
            .iter()
            .filter(|delivery| delivery.topic == "views")
            .collect();
        views.sort_by_key(|delivery| delivery.offset);
        for delivery in views {
            let value = &delivery.line["value"];
            let account = Account {
                balance: value["balance"].as_u64().expect("a balance"),
                rejected: value["rejected"].as_u64().expect("a number"),
            };
            checked.shown.insert(text(&delivery.line, "key"), account);
        }
    }
}
