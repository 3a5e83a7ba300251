//! Looking at the cluster.

use std::io::{Read, Write};

use parsley::kafka::probe::DescriptionError;
use parsley::kafka::{ClusterReport, Description, probe_cluster};

use super::{Options, ProbeError};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::plain::plain;
use crate::property;

/// The longest description that is read: what is longer is none.
const DESCRIPTION_BYTES_MAX: u64 = 1 << 20;

pub(super) fn run(options: &Options, out: &mut impl Write) -> Result<Exit, Failure> {
    let properties = property::checked(&options.properties).map_err(ProbeError::from)?;
    let input = options.config.to_string();
    let mut text = String::new();
    options
        .config
        .open()?
        .take(DESCRIPTION_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(|source| Failure::Read {
            input: input.clone(),
            source,
        })?;
    let described = |source: DescriptionError| ProbeError::Description {
        input: input.clone(),
        source,
    };
    let description = Description::from_toml(&text).map_err(described)?;
    let app = description.app().map_err(described)?;
    let mut config = description
        .config(options.brokers.as_str())
        .map_err(described)?;
    config.properties.extend(properties);
    let report =
        probe_cluster(app, &config, description.account.as_deref()).map_err(ProbeError::from)?;
    write(&report, out).map_err(Failure::Write)?;
    Ok(if report.is_fit() {
        Exit::Done
    } else {
        Exit::Failed
    })
}

fn write(report: &ClusterReport, out: &mut impl Write) -> std::io::Result<()> {
    for finding in &report.findings {
        writeln!(out, "{}", plain(&finding.to_string()))?;
    }
    let errors = report.errors().count();
    let notes = report.findings.len() - errors;
    let counted = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    };
    writeln!(
        out,
        "{}, {}",
        counted(errors, "error"),
        counted(notes, "note")
    )?;
    out.flush()
}
