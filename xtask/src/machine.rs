//! What a figure was measured on, and what it took of it.

use std::fs;
use std::thread;
use std::time::Duration;

/// Processors, their model, and the system, in one line.
pub fn line() -> String {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let model = fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| model(&text))
        .unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let system = fs::read_to_string("/proc/sys/kernel/osrelease").map_or_else(
        |_| std::env::consts::OS.to_owned(),
        |release| format!("Linux {}", version(&release)),
    );
    let plural = if cores == 1 { "" } else { "s" };
    format!("Measured on {cores} core{plural} of {model}, {system}.")
}

/// The model that the first processor has.
fn model(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo
        .lines()
        .find(|line| line.starts_with("model name"))?;
    let (_, model) = line.split_once(':')?;
    Some(model.trim().to_owned())
}

/// The numbers of a kernel's release, without what a distribution has put behind them.
fn version(release: &str) -> &str {
    let end = release.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    release[..end.unwrap_or(release.len())].trim_end_matches('.')
}

/// How long processors were busy with programs that this one ran and that have ended, summed over the processors. `None` where the system does not
/// tell in `/proc`.
pub fn busy() -> Option<Duration> {
    ended_programs(&fs::read_to_string("/proc/self/stat").ok()?)
}

/// The fields `cutime` and `cstime` of proc(5), in hundredths of a second on every Linux.
fn ended_programs(stat: &str) -> Option<Duration> {
    // The name of the program is in brackets, and may have blanks and brackets in it.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(13);
    let mut hundredths = || fields.next()?.parse::<u64>().ok();
    let sum = hundredths()?.checked_add(hundredths()?)?;
    Some(Duration::from_millis(sum.checked_mul(10)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_told_in_one_line() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\n\nprocessor\t: 1\nmodel name\t: Another\n";
        assert_eq!(model(cpuinfo).as_deref(), Some("Some CPU @ 3 GHz"));
        assert_eq!(model("processor: 0\n"), None);
        for (release, numbers) in [
            ("6.18.44-1-amd64\n", "6.18.44"),
            ("6.1\n", "6.1"),
            ("5.4.x", "5.4"),
        ] {
            assert_eq!(version(release), numbers);
        }
        assert_eq!(line().lines().count(), 1);
    }

    #[test]
    fn programs_that_have_ended_are_read_behind_the_name() {
        let stat = "7 (a (b) c) S 1 7 7 0 -1 4194304 100 200 0 0 11 12 250 75 20 0 1 0 9";
        assert_eq!(ended_programs(stat), Some(Duration::from_millis(3250)));
        assert_eq!(ended_programs("7 (a) S 1 7"), None);
        assert_eq!(ended_programs(""), None);
    }
}
