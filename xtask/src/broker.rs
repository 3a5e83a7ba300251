//! `cargo xtask kafka`.

use std::io::{self, Write};

use kafka_cluster::{ClusterConfig, KafkaCluster};

/// Runs brokers until standard input closes. Ctrl-C ends this process, and the brokers' lifelines end them.
pub fn run(version: String, brokers: u16) -> Result<bool, Box<dyn std::error::Error>> {
    eprintln!("fetching and starting Apache Kafka {version}");
    let cluster = KafkaCluster::start(&ClusterConfig {
        version,
        brokers,
        ..ClusterConfig::default()
    })?;
    // The address is the first and only line of standard output, so that a script can read it.
    println!("{}", cluster.bootstrap());
    io::stdout().flush()?;
    eprintln!("running; ends when standard input closes or with Ctrl-C");
    io::copy(&mut io::stdin().lock(), &mut io::sink())?;
    Ok(true)
}
