//! Measures the Kafka host beside a bare loop, on one broker, in turns. `cargo xtask bench kafka` runs this and makes the table.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Parser;
use parsley_bench::kafka::{Cluster, Input, Measured, Outcome, Passer};
use serde_json::{Value, json};

/// Measure the Kafka host beside a bare loop over rdkafka
#[derive(Parser)]
struct Arguments {
    /// Rounds that count, after one that does not
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Tens of thousands of records of 100 bytes; of those of 1 KiB there are half as many
    #[arg(long, default_value_t = 40)]
    load: u64,
    /// Measure only what has this in its name
    #[arg(long, default_value = "")]
    only: String,
    /// Where to write the figures, as JSON
    #[arg(long)]
    out: Option<PathBuf>,
}

/// The runs of one row of the table, in the order in which a round has them.
const PLAIN: &[(&str, Passer)] = &[
    ("bare", Passer::Bare),
    ("host", Passer::Host),
    ("bare adding headers", Passer::BareAddingHeaders),
    ("stateful", Passer::StatefulHost),
];
const STAMPED: &[(&str, Passer)] = &[
    ("bare", Passer::Bare),
    ("host", Passer::Host),
    ("bare with headers", Passer::BareWithHeaders),
];

fn main() -> Outcome<()> {
    let arguments = Arguments::parse();
    let cluster = Cluster::start()?;
    println!("Apache Kafka {}", cluster.version());
    let mut figures = BTreeMap::new();
    for (value_bytes, records) in [
        (100, arguments.load * 10_000),
        (1024, arguments.load * 5000),
    ] {
        let plain = cluster.fill(&format!("plain-{value_bytes}"), records, value_bytes)?;
        let stamped = format!("stamped-{value_bytes}");
        Passer::Host.run(&cluster, &plain, &stamped)?;
        let stamped = Input::of(&cluster, &stamped)?;
        for (name, input, passers) in [("plain", &plain, PLAIN), ("stamped", &stamped, STAMPED)] {
            for round in 0..=arguments.rounds {
                for (passer_name, passer) in passers {
                    let work = format!("{name} {value_bytes} {passer_name}");
                    if !work.contains(&arguments.only) {
                        continue;
                    }
                    let sink = format!("{}-{round}", work.replace(' ', "-"));
                    let measured = passer.run(&cluster, input, &sink)?;
                    cluster.delete_topic(&sink)?;
                    println!("{work}, round {round}: {}", told(&measured));
                    // The first has everything warm up.
                    if round > 0 {
                        figures
                            .entry(work)
                            .or_insert_with(Vec::new)
                            .push(figure(&measured));
                    }
                }
            }
        }
        cluster.delete_topic(&plain.topic)?;
        cluster.delete_topic(&stamped.topic)?;
    }
    if let Some(out) = arguments.out {
        let figures = json!({ "kafka": cluster.version(), "runs": figures });
        std::fs::write(out, format!("{figures:#}\n"))?;
    }
    Ok(())
}

fn figure(measured: &Measured) -> Value {
    let each_us = |time: std::time::Duration| time.as_secs_f64() * 1e6 / measured.records as f64;
    json!({
        "per_second": measured.rate(),
        "own_cpu_us": each_us(measured.own_cpu),
        "broker_cpu_us": each_us(measured.broker_cpu),
    })
}

fn told(measured: &Measured) -> String {
    let each_us = |time: std::time::Duration| time.as_secs_f64() * 1e6 / measured.records as f64;
    format!(
        "{:.0}/s, {} records and {} commits in {:.2} s, processors {:.2} µs a record here and {:.2} µs in the broker",
        measured.rate(),
        measured.records,
        measured.commits,
        measured.took.as_secs_f64(),
        each_us(measured.own_cpu),
        each_us(measured.broker_cpu),
    )
}
