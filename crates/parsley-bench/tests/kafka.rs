//! Needs a broker: what the Kafka benchmarks pass on is what they were given, on each way, and they notice when it is not.

use std::time::Duration;

use parsley_bench::kafka::{Cluster, Input, Passer};

#[test]
fn every_way_passes_every_record_on_and_a_missing_one_is_noticed() {
    let cluster = Cluster::start().unwrap();
    let records = 30_000;
    let plain = cluster.fill("plain", records, 100).unwrap();
    assert_eq!(plain.records, records);
    for (sink, passer) in [
        ("bare", Passer::Bare),
        ("headed", Passer::BareAddingHeaders),
        ("stamped", Passer::Host),
        ("stateful", Passer::StatefulHost),
    ] {
        let measured = passer.run(&cluster, &plain, sink).unwrap();
        assert!(
            measured.records < records,
            "{sink}: the first commit is not counted"
        );
        assert!(measured.commits == 0 || measured.took > Duration::ZERO);
    }
    // The second hop reads what the first has stamped.
    let stamped = Input::of(&cluster, "stamped").unwrap();
    for (sink, passer) in [
        ("bare-again", Passer::BareWithHeaders),
        ("stamped-again", Passer::Host),
    ] {
        passer.run(&cluster, &stamped, sink).unwrap();
    }
    // A record more than was read at first.
    let short = Input::of(&cluster, "stamped-again").unwrap();
    let other = cluster.fill("other", records, 101).unwrap();
    let mixed = Input {
        topic: other.topic,
        ..short
    };
    let noticed = Passer::Bare.run(&cluster, &mixed, "noticed").unwrap_err();
    assert!(noticed.to_string().contains("came out of"), "{noticed}");
}
