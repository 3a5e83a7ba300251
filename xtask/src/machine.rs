//! What a figure was measured on.

use std::fs;
use std::thread;

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
}
