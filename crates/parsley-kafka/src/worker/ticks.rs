//! Ticks: when each task's next is due, and how it joins the step at hand (`docs/protocol.md`, Ticks).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parsley_stage::TickSchedule;

use super::step::hand_over;
use super::{Session, Slot, Trouble, now_ms};

/// When the tasks of a worker tick. It stands beside sessions and assignments: what makes a task open anew does not put its tick off
/// (decision K36).
#[derive(Debug)]
pub(crate) struct Ticks {
    /// `None` for a stage without ticks.
    every: Option<Duration>,
    /// What schedules count from.
    since: Instant,
    schedules: BTreeMap<i32, TickSchedule>,
}

impl Ticks {
    pub(crate) fn new(every: Option<Duration>) -> Self {
        Self {
            every,
            since: Instant::now(),
            schedules: BTreeMap::new(),
        }
    }

    /// A task was opened. Where it had been open before, its schedule goes on.
    pub(super) fn opened(&mut self, partition: i32) {
        if let Some(every) = self.every {
            let now = self.since.elapsed();
            let schedule = || TickSchedule::starting_at(now, every);
            self.schedules.entry(partition).or_insert_with(schedule);
        }
    }

    /// Partitions were assigned: those that are not among them tick elsewhere.
    pub(super) fn keep(&mut self, assigned: &[i32]) {
        self.schedules
            .retain(|partition, _| assigned.contains(partition));
    }

    fn is_due(&self, partition: i32) -> bool {
        let schedule = self.schedules.get(&partition);
        schedule.is_some_and(|schedule| schedule.is_due(self.since.elapsed()))
    }

    fn until_due(&self, partition: i32) -> Option<Duration> {
        let schedule = self.schedules.get(&partition)?;
        Some(schedule.next().saturating_sub(self.since.elapsed()))
    }

    /// A tick of the partition's task was committed.
    pub(super) fn committed(&mut self, partition: i32) {
        let now = self.since.elapsed();
        if let Some(schedule) = self.schedules.get_mut(&partition) {
            schedule.ticked(now);
        }
    }
}

impl Session<'_> {
    /// How long until a task ticks. What ticks in the step at hand, or may not tick, is no reason to look.
    pub(super) fn until_tick(&self) -> Option<Duration> {
        if self.watch.is_overdue {
            return None;
        }
        let ticks = &self.worker.ticks;
        let until = |(partition, slot): (&i32, &Slot)| match slot {
            Slot::Running(task) if task.counts.ticks == 0 => ticks.until_due(*partition),
            _ => None,
        };
        self.slots.iter().filter_map(until).min()
    }

    /// Emits what is due, one tick for each task and step. It makes a step where there is none: nothing may come for long.
    pub(super) fn tick(&mut self) -> Result<(), Trouble> {
        let Self {
            slots,
            producer,
            step_since,
            worker,
            ..
        } = self;
        for (&partition, slot) in slots.iter_mut() {
            let Slot::Running(task) = slot else { continue };
            if task.counts.ticks > 0 || !worker.ticks.is_due(partition) {
                continue;
            }
            let sends = task
                .tick(now_ms())
                .map_err(|error| Trouble::task(partition, error))?;
            step_since.get_or_insert_with(Instant::now);
            hand_over(producer, partition, sends)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    /// What comes more often than the interval does not put a tick off: tasks open anew, partitions come back.
    #[test]
    fn a_schedule_goes_on_until_its_partition_is_elsewhere() {
        let mut ticks = Ticks::new(Some(HOUR));
        for partition in [0, 1] {
            ticks.opened(partition);
        }
        let begun = ticks.schedules.clone();
        ticks.keep(&[0, 1, 2]);
        ticks.opened(0);
        assert_eq!(ticks.schedules, begun);
        ticks.keep(&[0]);
        assert_eq!(ticks.until_due(1), None);
        ticks.opened(1);
        assert_eq!(ticks.schedules[&0], begun[&0]);
        assert!(ticks.schedules[&1].next() > begun[&1].next());
    }

    #[test]
    fn a_tick_is_due_until_it_is_committed() {
        let mut ticks = Ticks::new(Some(HOUR));
        ticks.opened(0);
        assert!(!ticks.is_due(0));
        assert!(ticks.until_due(0).is_some_and(|until| !until.is_zero()));
        let overdue = TickSchedule::starting_at(Duration::ZERO, Duration::from_nanos(1));
        ticks.schedules.insert(1, overdue);
        let due = |ticks: &Ticks| (ticks.is_due(1), ticks.until_due(1));
        assert_eq!(due(&ticks), (true, Some(Duration::ZERO)));
        let before = ticks.schedules[&1].next();
        ticks.committed(1);
        assert!(ticks.schedules[&1].next() > before);
        assert!(!ticks.is_due(0));
    }

    #[test]
    fn a_stage_without_ticks_has_no_schedules() {
        let mut ticks = Ticks::new(None);
        ticks.opened(0);
        ticks.committed(0);
        assert_eq!((ticks.is_due(0), ticks.until_due(0)), (false, None));
    }
}
