//! How fast records were committed, and how much of the processors it took.

use std::fs;
use std::io;
use std::time::{Duration, Instant};

/// How many ticks of a processor's time Linux counts in a second, whatever the kernel's own rate.
const TICKS_PER_S: f64 = 100.0;

/// What was measured, from the first commit with records to the last.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// The records committed after the first of these commits.
    pub records: u64,
    /// How long that took.
    pub took: Duration,
    /// How many commits these were.
    pub commits: u64,
    /// How long processors worked in this process meanwhile.
    pub own_cpu: Duration,
    /// How long processors worked in the broker meanwhile.
    pub broker_cpu: Duration,
}

impl Measured {
    /// Records in a second.
    pub fn rate(&self) -> f64 {
        self.records as f64 / self.took.as_secs_f64()
    }
}

/// Takes note of commits.
#[derive(Debug)]
pub struct Meter {
    broker: u32,
    first: Option<Moment>,
    seen: u64,
    commits: u64,
}

#[derive(Clone, Copy, Debug)]
struct Moment {
    at: Instant,
    records: u64,
    own_cpu: Duration,
    broker_cpu: Duration,
}

impl Meter {
    /// Nothing is committed yet. `broker` is the broker's process.
    pub fn new(broker: u32) -> Self {
        Self {
            broker,
            first: None,
            seen: 0,
            commits: 0,
        }
    }

    /// So many records are committed by now.
    pub fn committed(&mut self, records: u64) -> io::Result<()> {
        if records > self.seen {
            self.seen = records;
            match self.first {
                Some(_) => self.commits += 1,
                None => self.first = Some(self.moment()?),
            }
        }
        Ok(())
    }

    /// All are committed: what was measured.
    pub fn end(&self) -> io::Result<Measured> {
        let end = self.moment()?;
        let first = self.first.unwrap_or(end);
        Ok(Measured {
            records: end.records - first.records,
            took: end.at - first.at,
            commits: self.commits,
            own_cpu: end.own_cpu.saturating_sub(first.own_cpu),
            broker_cpu: end.broker_cpu.saturating_sub(first.broker_cpu),
        })
    }

    fn moment(&self) -> io::Result<Moment> {
        Ok(Moment {
            at: Instant::now(),
            records: self.seen,
            own_cpu: cpu_of(std::process::id())?,
            broker_cpu: cpu_of(self.broker)?,
        })
    }
}

/// How long processors have worked for a process so far.
fn cpu_of(process: u32) -> io::Result<Duration> {
    let path = format!("/proc/{process}/stat");
    let text = fs::read_to_string(&path)?;
    let ticks = ticks_in(&text).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{path} has another form: {text}"),
        )
    })?;
    Ok(Duration::from_secs_f64(ticks as f64 / TICKS_PER_S))
}

/// The time in and under a process's own code: the 14th and 15th field, of which the second is a name in parentheses.
fn ticks_in(stat: &str) -> Option<u64> {
    let (_, behind_the_name) = stat.rsplit_once(')')?;
    let mut fields = behind_the_name.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_first_commit_has_is_not_counted() {
        let mut meter = Meter::new(std::process::id());
        for records in [0, 100, 100, 250, 400] {
            meter.committed(records).unwrap();
        }
        let measured = meter.end().unwrap();
        assert_eq!((measured.records, measured.commits), (300, 2));
        assert!(measured.took > Duration::ZERO);
    }

    #[test]
    fn the_ticks_of_a_process_are_found_behind_any_name() {
        let stat = "7 (a ) (b) 1) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15";
        assert_eq!(ticks_in(stat), Some(11 + 12));
        assert_eq!(ticks_in("7 (a) S 1 2"), None);
        assert_eq!(ticks_in(""), None);
        assert!(cpu_of(std::process::id()).is_ok());
    }
}
