//! No trace, however wrong its numbers, breaks a diagram or a log.

use parsley_sim::diagram::html;
use parsley_sim::shiviz::shiviz;
use parsley_sim::trace::{At, Event, Found, Kind, OnPurpose, Trace};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{
    Just, ProptestConfig, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest,
};

fn number() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0..4_usize, 1 => Just(usize::MAX), 1 => any::<usize>()]
}

fn place() -> impl Strategy<Value = At> {
    let offset = prop_oneof![8 => 0..4_i64, 1 => Just(i64::MIN), 1 => Just(i64::MAX)];
    (number(), offset).prop_map(|(channel, offset)| At { channel, offset })
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        any::<String>(),
        "[a-c]{1,6}(/[0-2])?",
        Just("</script><svg onload='x'>\"".to_owned())
    ]
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        1 => any::<u64>().prop_map(|restored| Kind::Started { restored }),
        1 => any::<bool>().prop_map(|mid_step| Kind::Crashed { mid_step }),
        1 => (text(), text()).prop_map(|(code, found)| Kind::Refused { code, found }),
        4 => (place(), text()).prop_map(|(at, clock)| Kind::Sent { at, clock }),
        2 => Just(Kind::Committed),
        1 => Just(Kind::Aborted),
        4 => place().prop_map(|at| Kind::Received { at }),
        1 => place().prop_map(|at| Kind::Dropped { at }),
        2 => (place(), text()).prop_map(|(at, blocked_by)| Kind::Held { at, blocked_by }),
        4 => (place(), any::<bool>()).prop_map(|(at, was_held)| Kind::Delivered { at, was_held }),
        1 => (number(), prop_oneof![any::<i64>(), Just(i64::MIN)]).prop_map(|(channel, next)| Kind::Advanced { channel, next }),
        1 => text().prop_map(Kind::Note),
    ]
}

fn found() -> impl Strategy<Value = Found> {
    (
        text(),
        text(),
        option::of(number()),
        option::of(place()),
        option::of(place()),
        vec(place(), 0..5),
    )
        .prop_map(|(rule, text, actor, record, other, path)| Found {
            rule,
            text,
            actor,
            record,
            other,
            path,
        })
}

fn trace() -> impl Strategy<Value = Trace> {
    let event = (any::<u64>(), option::of(number()), kind())
        .prop_map(|(step, actor, kind)| Event { step, actor, kind });
    (
        text(),
        any::<u64>(),
        option::of((text(), text(), text())),
        option::of(text()),
        vec(text(), 0..4),
        vec(text(), 0..4),
        vec(event, 0..40),
        option::of(found()),
    )
        .prop_map(
            |(scenario, seed, on_purpose, replay, actors, channels, events, violation)| Trace {
                scenario,
                seed,
                on_purpose: on_purpose.map(|(kind, name, about)| OnPurpose { kind, name, about }),
                replay,
                actors,
                channels,
                events,
                violation,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_trace_has_a_diagram(trace in trace()) {
        let page = html(&trace);
        prop_assert_eq!(page.matches("<g id=\"e").count(), trace.events.len());
        prop_assert_eq!(page.matches("<script").count(), 2);
        prop_assert_eq!(page.matches("<svg onload").count(), 0);
        let from = page.find("application/json\">").expect("the data") + 18;
        let to = from + page[from..].find("</script>").expect("its end");
        let data: serde_json::Value = serde_json::from_str(&page[from..to]).expect("JSON");
        let events = data["events"].as_array().expect("a list");
        let records = data["records"].as_array().expect("a list").len();
        prop_assert_eq!(events.len(), trace.events.len());
        for (i, event) in events.iter().enumerate() {
            prop_assert!(event[3].as_i64().expect("a cause") < i64::try_from(i).expect("small"));
            prop_assert!(event[4].as_i64().expect("a record") < i64::try_from(records).expect("small"));
        }
        for bad in ["NaN", "inf"] {
            let picture = &page[page.find("<svg id=\"picture\"").expect("the picture")..from];
            prop_assert!(!picture.split('"').any(|value| value.split(' ').any(|number| number == bad)));
        }
    }

    #[test]
    fn any_trace_has_a_log(trace in trace()) {
        let log = shiviz(&trace);
        let mut own = std::collections::BTreeMap::<String, u64>::new();
        let lines: Vec<&str> = log.split('\n').skip(2).collect();
        for pair in lines.chunks_exact(2) {
            let (host, clock) = pair[0].split_once(' ').expect("a host and a clock");
            let clock: std::collections::BTreeMap<String, u64> = serde_json::from_str(clock).expect("JSON");
            let count = own.entry(host.to_owned()).or_insert(0);
            *count += 1;
            prop_assert_eq!(clock[host], *count);
            for (other, n) in &clock {
                prop_assert!(own.get(other).is_some_and(|seen| (1..=*seen).contains(n)));
            }
        }
        let hosts = own.len();
        prop_assert_eq!((lines.len() - 1) / 2, hosts + trace.events.len());
    }

    #[test]
    fn any_trace_can_be_told(trace in trace()) {
        prop_assert!(trace.to_string().lines().count() > trace.events.len());
    }
}
