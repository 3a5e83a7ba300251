//! What really happened before what, from who was delivered what before who sent what. No clock is looked at.
//!
//! The past of a record is what the task that sent it had been delivered, up to the delivery it was sent for, and the pasts of all that; as
//! the highest offset of each channel, since a task is delivered a channel in its order. What one task sent for different deliveries counts
//! as unrelated here: within a step it is, unless the keys are the same (`docs/protocol.md`, Send order).

use std::collections::{BTreeMap, HashMap};

use super::finding::{Finding, Findings, Kind};
use super::world::{ChannelNo, DeliveryNo, RecordNo, TaskNo, World, count};

/// The highest offset of each channel, by channel number.
pub type Past = [(ChannelNo, i64)];

/// The pasts of the records that were sent.
#[derive(Debug, Default)]
pub struct Causes {
    pasts: Vec<Box<Past>>,
    /// By record number: where its past is.
    of: Vec<Option<u32>>,
}

/// A task that is gone through.
#[derive(Default)]
struct Going {
    next: usize,
    known: BTreeMap<ChannelNo, i64>,
}

impl Causes {
    /// The past of a record; nothing is known of one that came from outside.
    pub fn of(&self, record: RecordNo) -> Option<&Past> {
        let at = self.of.get(record as usize).copied().flatten()?;
        Some(&self.pasts[at as usize])
    }

    /// Goes through all tasks, each delivery behind the sending of what was delivered.
    pub fn find(world: &World, findings: &mut Findings) -> Self {
        let mut causes = Self {
            pasts: Vec::new(),
            of: vec![None; world.records.len()],
        };
        let mut tasks: Vec<Going> = Vec::new();
        tasks.resize_with(world.tasks.len(), Going::default);
        let mut waiting: HashMap<RecordNo, Vec<TaskNo>> = HashMap::new();
        let mut ready: Vec<TaskNo> = (0..count(tasks.len())).rev().collect();
        loop {
            while let Some(task) = ready.pop() {
                causes.go_on(world, task, &mut tasks, &mut waiting, &mut ready);
            }
            // Every task that is left waits for another one, so some wait in a circle: the first of them goes on without.
            let Some((record, task)) = in_a_circle(world, &tasks) else {
                return causes;
            };
            let delivery = world.histories[task as usize][tasks[task as usize].next];
            let place = world.deliveries[delivery as usize].place;
            let sent_for = world.records[record as usize].sent_for;
            let sender = sent_for.map(|sender| &world.deliveries[sender as usize]);
            findings.add(Finding {
                task: Some(task),
                record: Some(record),
                other: sender.map(|sender| (Some(sender.record), sender.place)),
                ..Finding::new(
                    Kind::DeliveredBeforeSent,
                    place,
                    "the record was delivered before what it was sent for can have been".to_owned(),
                )
            });
            causes.pasts.push(Box::default());
            causes.of[record as usize] = Some(count(causes.pasts.len() - 1));
            ready.extend(waiting.remove(&record).unwrap_or_default());
        }
    }

    fn go_on(
        &mut self,
        world: &World,
        task: TaskNo,
        tasks: &mut [Going],
        waiting: &mut HashMap<RecordNo, Vec<TaskNo>>,
        ready: &mut Vec<TaskNo>,
    ) {
        let going = &mut tasks[task as usize];
        while let Some(delivery) = world.histories[task as usize].get(going.next) {
            let delivery = &world.deliveries[*delivery as usize];
            let record = &world.records[delivery.record as usize];
            let past = self.of(delivery.record);
            if past.is_none() && record.sent_for.is_some() {
                waiting.entry(delivery.record).or_default().push(task);
                return;
            }
            for (channel, offset) in past.unwrap_or_default() {
                reach(&mut going.known, *channel, *offset);
            }
            reach(&mut going.known, record.channel, record.offset);
            going.next += 1;
            let sent = world.sent_for(delivery);
            if sent.is_empty() {
                continue;
            }
            let past = going
                .known
                .iter()
                .map(|(channel, offset)| (*channel, *offset));
            self.pasts.push(past.collect());
            for record in sent {
                self.of[*record as usize].get_or_insert(count(self.pasts.len() - 1));
                ready.extend(waiting.remove(record).unwrap_or_default());
            }
        }
    }
}

fn reach(known: &mut BTreeMap<ChannelNo, i64>, channel: ChannelNo, offset: i64) {
    let highest = known.entry(channel).or_insert(offset);
    *highest = (*highest).max(offset);
}

/// A task that waits for a record whose sending waits for that task, and the record. `None` when no task waits.
fn in_a_circle(world: &World, tasks: &[Going]) -> Option<(RecordNo, TaskNo)> {
    let head = |task: TaskNo| {
        let next = tasks[task as usize].next;
        let delivery: &DeliveryNo = world.histories[task as usize].get(next)?;
        Some(world.deliveries[*delivery as usize].record)
    };
    let mut task = (0..count(tasks.len())).find(|task| head(*task).is_some())?;
    // As many hops as there are tasks lead into the circle from anywhere.
    for _ in 0..tasks.len() {
        let sent_for = world.records[head(task)? as usize].sent_for?;
        task = world.deliveries[sent_for as usize].task;
    }
    head(task).map(|record| (record, task))
}
