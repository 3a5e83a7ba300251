//! What a host that keeps a watch beside a task tells of it, with the times that it is given.

mod support;
#[path = "../../parsley-embedded/tests/support/told.rs"]
mod telling;

use std::sync::Arc;
use std::time::Duration;

use parsley_core::{Channel, Offset, RefusalCode};
use parsley_stage::meter::StepCounts;
use parsley_stage::watch::TaskWatch;
use parsley_stage::{Stage, Topic, codec};
use support::{Host, Log, claims};
use telling::{Events, Metrics};

fn text(name: &str) -> Topic<String, String> {
    Topic::new(name, codec::string(), codec::string())
}

/// A task, the watch beside it, and the log. The stage has the name of the test.
struct Watched {
    host: Host,
    log: Log,
    watch: TaskWatch,
    stage: &'static str,
}

impl Watched {
    fn opened(stage: &'static str, warning_after: Duration) -> Self {
        let declared = Stage::stateless(stage)
            .on(&text("x"), |_, _| Ok(()))
            .on(&text("y"), |_, _| Ok(()))
            .on(&text("z"), |_, _| Ok(()))
            .build()
            .unwrap();
        let log = Log::new(&[("x", 1), ("y", 1), ("z", 1)]);
        let mut host = Host::new(&declared);
        host.open(&log).unwrap();
        let application: Arc<str> = "watched".into();
        let mut watch = TaskWatch::new(&application, &declared, 0, &log.topics, warning_after);
        watch.opened(host.task(), 0);
        Self {
            host,
            log,
            watch,
            stage,
        }
    }

    fn channel(&self, topic: &str) -> Channel {
        self.log.channel(topic, 0)
    }

    /// A record comes that claims these, and what can be delivered is, in a step that is committed at this time. How many were delivered.
    fn comes(&mut self, topic: &str, claiming: &[(&str, Offset)], now_ms: i64) -> usize {
        let claimed: Vec<_> = claiming
            .iter()
            .map(|&(topic, offset)| (self.channel(topic), offset))
            .collect();
        let headers = match claimed.is_empty() {
            true => Vec::new(),
            false => claims(&claimed),
        };
        let (key, value) = ("k".to_owned(), "v".to_owned());
        let offset = self.log.produce(&text(topic), &key, &value, headers);
        self.host.feed(&self.log, &[topic]).unwrap();
        self.watch.taken_in(self.channel(topic), offset + 1, now_ms);
        let before = self.host.delivered.len();
        let delivered = self.host.step(&mut self.log, None).unwrap();
        let counts = StepCounts {
            received: 1,
            dropped: 0,
            delivered: delivered as u64,
            ticks: 0,
        };
        let told = &self.host.delivered[before..].to_vec();
        self.watch
            .step_committed(self.host.task(), counts, told, now_ms);
        delivered
    }

    fn look(&mut self, now_ms: i64) {
        self.watch.look(self.host.task(), now_ms);
    }

    fn labelled(&self, metric: &str, more: &str) -> String {
        let stage = self.stage;
        format!("{metric}{{application=\"watched\",stage=\"{stage}\",task=\"0\"{more}}}")
    }

    /// How many records of an input are held, and for how many seconds the first of them, as the metrics say.
    fn metered(&self, input: &str) -> (f64, f64) {
        let of_input = format!(",input={input:?}");
        let gauge = |metric| Metrics::installed().gauge(&self.labelled(metric, &of_input));
        (
            gauge("parsley_held_records"),
            gauge("parsley_oldest_hold_seconds"),
        )
    }
}

/// The events of these tests, which are told apart by the names of their stages.
fn events() -> &'static Events {
    Metrics::installed();
    Events::installed(&[])
}

#[test]
fn what_is_held_is_counted_and_aged_until_it_is_delivered() {
    events();
    let mut watched = Watched::opened("counted-and-aged", Duration::from_secs(10));
    let [x, y] = ["x", "y"].map(|topic| watched.channel(topic));
    assert_eq!(watched.watch.held_on(x, 0), (0, None));
    assert_eq!(watched.comes("x", &[("y", 0)], 1_000), 0);
    assert_eq!(watched.comes("x", &[("y", 1)], 5_000), 0);
    assert_eq!(watched.metered("x"), (2.0, 4.0));
    assert_eq!(watched.metered("y"), (0.0, 0.0));
    assert_eq!(watched.watch.held_on(x, 6_500), (2, Some(5_500)));
    assert_eq!(watched.watch.held_on(y, 6_500), (0, None));
    let nowhere = watched.channel("x").topic.partition(1);
    assert_eq!(watched.watch.held_on(nowhere, 6_500), (0, None));
    let explained = watched.watch.explain_holds(watched.host.task(), 7_000);
    assert_eq!((explained.len(), explained[0].age_ms), (1, 6_000));
    watched.look(9_000);
    assert_eq!(watched.metered("x"), (2.0, 8.0));

    // The first is delivered, and the second has been here since it came.
    assert_eq!(watched.comes("y", &[], 9_500), 2);
    assert_eq!(watched.metered("x"), (1.0, 4.5));
    assert_eq!(watched.comes("y", &[], 9_600), 2);
    assert_eq!(watched.metered("x"), (0.0, 0.0));
    assert_eq!(watched.watch.held_on(x, 9_600), (0, None));
    let counted = |metric| Metrics::installed().counter(&watched.labelled(metric, ""));
    assert_eq!(counted("parsley_received_records_total"), 4);
    assert_eq!(counted("parsley_delivered_records_total"), 4);
    let entries = watched.labelled("parsley_stamp_entries", ",kind=\"offset\"");
    assert_eq!(Metrics::installed().gauge(&entries), 2.0);
    watched.watch.refused(RefusalCode::CorruptClock);
    let refusals = watched.labelled("parsley_refusals_total", ",code=\"vc-corrupt-clock\"");
    assert_eq!(Metrics::installed().counter(&refusals), 1);
    watched.watch.meter().restoring(3, 2);
    let left = watched.labelled("parsley_restore_left_offsets", "");
    assert_eq!(Metrics::installed().gauge(&left), 2.0);
}

/// Whichever of the inputs it is, with others before and behind it that hold nothing.
#[test]
fn what_each_input_holds_is_told_of_it_alone() {
    events();
    for (stage, holding, others) in [
        ("holds-on-x", "x", ["y", "z"]),
        ("holds-on-y", "y", ["x", "z"]),
        ("holds-on-z", "z", ["x", "y"]),
    ] {
        let mut watched = Watched::opened(stage, Duration::from_secs(10));
        watched.comes(holding, &[(others[1], 0)], 1_000);
        watched.look(3_000);
        assert_eq!(watched.metered(holding), (1.0, 2.0), "{stage}");
        for other in others {
            assert_eq!(watched.metered(other), (0.0, 0.0), "{stage}");
        }
    }
}

/// In the process that had taken a record in, it is as old as it was; in another one, as old as its opening.
#[test]
fn what_is_held_at_an_opening_is_as_old_as_the_process_knows() {
    events();
    let mut watched = Watched::opened("old-at-opening", Duration::from_secs(10));
    let x = watched.channel("x");
    watched.comes("x", &[("y", 0)], 1_000);
    watched.host.open(&watched.log).unwrap();
    watched.watch.opened(watched.host.task(), 4_000);
    assert_eq!(watched.watch.held_on(x, 5_000), (1, Some(4_000)));

    let Watched { mut host, log, .. } = watched;
    let stage = Stage::stateless("old-at-opening").on(&text("x"), |_, _| Ok(()));
    let mut another = TaskWatch::new(
        &"elsewhere".into(),
        &stage.build().unwrap(),
        0,
        &log.topics,
        Duration::from_secs(10),
    );
    another.opened(host.task(), 4_000);
    assert_eq!(another.held_on(x, 5_000), (1, Some(1_000)));
}

#[test]
fn a_hold_is_told_of_once_and_warned_of_once_when_it_lasts() {
    let stage = "told-and-warned";
    let events = events();
    let mut watched = Watched::opened(stage, Duration::from_secs(10));
    let told = |level: &str| events.with(&[level, "parsley::hold", stage]);
    watched.comes("x", &[("y", 0), ("z", 0)], 1_000);
    assert_eq!(told("DEBUG").len(), 1);
    assert!(
        told("DEBUG")[0].contains("missing=z:0@0; y:0@0"),
        "{:?}",
        told("DEBUG")
    );
    assert!(
        told("DEBUG")[0].contains("clock=\"01"),
        "{:?}",
        told("DEBUG")
    );
    watched.look(10_999);
    assert_eq!(told("WARN"), [""; 0]);
    watched.look(11_000);
    watched.look(60_000);
    assert_eq!(told("WARN").len(), 1);
    for part in [
        "x:0@0",
        "vc-hold-not-fetched",
        "age_ms=10000",
        "missing=z:0@0; y:0@0",
    ] {
        assert!(told("WARN")[0].contains(part), "{part}: {:?}", told("WARN"));
    }
    // The next one that is first.
    watched.comes("x", &[("y", 1)], 61_000);
    watched.comes("y", &[], 62_000);
    watched.comes("z", &[], 63_000);
    assert_eq!((told("DEBUG").len(), told("WARN").len()), (2, 1));
    assert!(told("DEBUG")[1].contains("x:0@1"), "{:?}", told("DEBUG"));
    watched.look(71_000);
    assert_eq!(told("WARN").len(), 2);
    assert!(
        told("WARN")[1].contains("age_ms=10000"),
        "{:?}",
        told("WARN")
    );
}

#[test]
fn it_is_looked_again_sooner_while_something_is_to_be_warned_of() {
    events();
    let ms = Duration::from_millis;
    for (stage, warning_after, sooner) in [
        ("looks-late", ms(60_000), ms(1_000)),
        ("looks-soon", ms(200), ms(200)),
        ("looks-at-once", ms(1), ms(10)),
    ] {
        let mut watched = Watched::opened(stage, warning_after);
        assert_eq!(watched.watch.look_again(), None);
        watched.comes("x", &[("y", 0)], 1_000);
        assert_eq!(watched.watch.look_again(), Some(sooner), "{stage}");
        watched.look(61_000);
        assert_eq!(watched.watch.look_again(), Some(ms(1_000)), "{stage}");
        watched.comes("y", &[], 62_000);
        assert_eq!(watched.watch.look_again(), None);
    }
}

#[test]
fn deliveries_are_told_with_their_places_and_clocks() {
    let stage = "deliveries-told";
    let events = events();
    let mut watched = Watched::opened(stage, Duration::from_secs(10));
    watched.comes("x", &[("y", 0)], 1_000);
    watched.comes("y", &[], 2_000);
    let told = events.with(&["DEBUG", "parsley::delivery", stage]);
    assert_eq!(told.len(), 2, "{told:?}");
    for (line, parts) in told.iter().zip([
        ["topic=y", "offset=0", "was_held=false"],
        ["topic=x", "offset=0", "was_held=true"],
    ]) {
        for part in parts {
            assert!(line.contains(part), "{part} in {line}");
        }
    }
}
