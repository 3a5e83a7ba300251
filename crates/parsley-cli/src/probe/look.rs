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
    let mut bytes = Vec::new();
    // One more than is taken, so that a longer one is told from its beginning.
    options
        .config
        .open()?
        .take(DESCRIPTION_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|source| Failure::Read {
            input: input.clone(),
            source,
        })?;
    let text = text_of(bytes, &input)?;
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
    let report = probe_cluster(app, &config, description.account.as_deref()).map_err(|source| {
        ProbeError::Cluster {
            brokers: options.brokers.to_string(),
            source: Box::new(source),
        }
    })?;
    write(&report, out).map_err(Failure::Write)?;
    Ok(if report.is_fit() {
        Exit::Done
    } else {
        Exit::Failed
    })
}

/// What a description says, if it is a text of a length that is read.
fn text_of(bytes: Vec<u8>, input: &str) -> Result<String, ProbeError> {
    if bytes.len() as u64 > DESCRIPTION_BYTES_MAX {
        return Err(ProbeError::TooLong {
            input: input.to_owned(),
            bytes_max: DESCRIPTION_BYTES_MAX,
        });
    }
    String::from_utf8(bytes).map_err(|error| ProbeError::NoText {
        input: input.to_owned(),
        source: error.utf8_error(),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A description of more than 1 MiB was cut there, and what was left of it was probed as if it were the whole: a stage behind the cut was
    /// never looked at, and the answer could be "0 errors". One that is not UTF-8 was said to be unreadable (5), where it is malformed (2).
    #[test]
    fn a_description_is_never_probed_by_its_beginning_alone() {
        let folder = tempfile::tempdir().unwrap();
        let first =
            "application = \"shop\"\n[[stage]]\nname = \"settle\"\ninputs = [\"orders\"]\n#";
        let fits = DESCRIPTION_BYTES_MAX as usize;
        let filled = |length: usize| format!("{first}{}", "x".repeat(length - first.len()));
        let long = format!(
            "{}\n[[stage]]\nname = \"bill\"\ninputs = [\"bills\"]\n",
            filled(fits)
        );
        let of = |bytes: &[u8]| {
            let path = folder.path().join("shop.toml");
            std::fs::write(&path, bytes).unwrap();
            let options = Options {
                // Nobody listens there: a description that is taken ends with another code.
                brokers: "127.0.0.1:1".parse().unwrap(),
                config: path.into_os_string().into(),
                properties: Vec::new(),
            };
            let failure = run(&options, &mut Vec::new()).unwrap_err();
            (failure.exit(), failure.to_string())
        };
        let (exit, said) = of(long.as_bytes());
        assert_eq!(exit, Exit::Usage, "{said}");
        assert!(said.ends_with("it is longer than 1048576 bytes"), "{said}");
        let (exit, said) = of(b"application = \"\xff\"\n");
        assert_eq!(exit, Exit::Usage, "{said}");
        assert!(said.contains("it is not UTF-8"), "{said}");
        assert!(text_of(filled(fits).into_bytes(), "shop.toml").is_ok());
    }

    /// The failure said what was not answered, and not whom it had asked: of a mistyped address nothing was to be seen.
    #[test]
    fn who_does_not_answer_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shop.toml");
        let text = "application = \"shop\"\n[[stage]]\nname = \"settle\"\ninputs = [\"orders\"]\n";
        std::fs::write(&path, text).unwrap();
        let options = Options {
            brokers: "127.0.0.1:1".parse().unwrap(),
            config: path.into_os_string().into(),
            properties: Vec::new(),
        };
        let failure = run(&options, &mut Vec::new()).unwrap_err();
        assert_eq!(failure.exit(), Exit::Cluster);
        let said = failure.to_string();
        assert!(
            said.starts_with("the cluster at 127.0.0.1:1 cannot be looked at: "),
            "{said}"
        );
    }
}
