//! Diagrams show what a trace says: every event, every pair of send and delivery, holds, interruptions, the violation.

mod runs;

use std::collections::BTreeSet;

use parsley_sim::diagram::html;
use parsley_sim::trace::{Found, Kind, OnPurpose, Trace};
use runs::{Script, at};
use serde_json::Value;

/// The picture itself, without the legend and the panel's data.
fn picture(page: &str) -> &str {
    let from = page
        .find("<svg id=\"picture\"")
        .expect("a page has its picture");
    &page[from..from + page[from..].find("</svg>").expect("the picture ends")]
}

/// What the page's script is given.
fn data(page: &str) -> Value {
    let start = "<script id=\"run\" type=\"application/json\">";
    let from = page.find(start).expect("a page has its data") + start.len();
    let to = from + page[from..].find("</script>").expect("the data ends");
    serde_json::from_str(&page[from..to]).expect("the data is JSON")
}

/// The values of an attribute in the elements that begin with a text.
fn attribute<'p>(page: &'p str, element: &str, name: &str) -> Vec<&'p str> {
    let value = |rest: &'p str| {
        let tag = &rest[..rest.find('>').expect("an element ends")];
        let from = tag
            .find(&format!(" {name}=\""))
            .expect("the element has the attribute")
            + name.len()
            + 3;
        &tag[from..from + tag[from..].find('"').expect("the attribute ends")]
    };
    page.match_indices(element)
        .map(|(i, _)| value(&page[i..]))
        .collect()
}

/// What the events of a path say, from the edge on.
fn path_to(data: &Value, event: usize) -> Vec<String> {
    let mut path = Vec::new();
    let mut next = i64::try_from(event).expect("a small number");
    while let Ok(i) = usize::try_from(next) {
        let event = &data["events"][i];
        path.push(format!(
            "{} {}",
            event[5].as_str().expect("a name"),
            event[6].as_str().expect("a text")
        ));
        let cause = event[3].as_i64().expect("a number");
        assert!(cause < next, "an event follows from an earlier one");
        next = cause;
    }
    path.reverse();
    path
}

fn position(trace: &Trace, is_it: impl Fn(&Kind) -> bool) -> usize {
    trace
        .events
        .iter()
        .rposition(|event| is_it(&event.kind))
        .expect("the event is in the trace")
}

#[test]
fn every_event_has_its_mark_its_row_and_its_words() {
    for trace in [runs::shop(), runs::careless_ledger(), runs::crowd()] {
        let page = html(&trace);
        let picture = picture(&page);
        let expected: Vec<String> = (0..trace.events.len()).map(|i| i.to_string()).collect();
        assert_eq!(attribute(picture, "<g class=\"row", "data-i"), expected);
        assert_eq!(attribute(picture, "<g id=\"e", "data-i"), expected);
        let ys: Vec<f64> = data(&page)["events"]
            .as_array()
            .expect("a list of events")
            .iter()
            .map(|event| event[1].as_f64().expect("a number"))
            .collect();
        assert_eq!(ys.len(), trace.events.len());
        assert!(
            ys.windows(2).all(|two| two[0] < two[1]),
            "time runs downward, a row for each event"
        );
    }
    let page = html(&runs::shop());
    for words in [
        ">sent orders:0@0<",
        ">holds parcels:0@0 for bills:0&lt;=0<",
        ">delivered parcels:0@0, held before<",
        ">started, 1 held restored<",
        ">crashed within a step<",
        ">is past bills:0@3<",
        ">marker at bills:0@3, aborted<",
    ] {
        assert!(picture(&page).contains(words), "{words}");
    }
}

#[test]
fn an_arrow_leads_from_each_send_to_each_of_its_deliveries() {
    let trace = runs::shop();
    let mut expected = Vec::new();
    for (i, event) in trace.events.iter().enumerate() {
        if let Kind::Delivered { at, .. } = &event.kind {
            let sent = position(
                &trace,
                |kind| matches!(kind, Kind::Sent { at: sent, .. } if sent == at),
            );
            expected.push((sent.to_string(), i.to_string()));
        }
    }
    assert_eq!(expected.len(), 14);
    let page = html(&trace);
    let from = attribute(picture(&page), "<g class=\"arrow", "data-from");
    let to = attribute(picture(&page), "<g class=\"arrow", "data-i");
    let drawn: Vec<(String, String)> = from
        .into_iter()
        .zip(to)
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .collect();
    assert_eq!(drawn, expected);
}

#[test]
fn a_delivery_whose_send_is_not_in_the_trace_has_no_arrow() {
    let mut run = Script::new("late", 1, &["a/0"], &["t:0"]);
    run.started(0, 0)
        .delivered(0, at(0, 3))
        .sent(0, at(0, 4), "");
    let page = html(&run.finish());
    assert!(!picture(&page).contains("class=\"arrow"));
    assert_eq!(
        path_to(&data(&page), 2),
        ["a/0 delivered t:0@3", "a/0 sent t:0@4"]
    );
}

#[test]
fn a_path_leads_from_the_edge_to_the_record() {
    let trace = runs::shop();
    let parcel = position(
        &trace,
        |kind| matches!(kind, Kind::Delivered { at: it, .. } if *it == at(2, 2)),
    );
    assert_eq!(
        path_to(&data(&html(&trace)), parcel),
        [
            "shop sent orders:0@1",
            "billing/0 delivered orders:0@1",
            "billing/0 sent bills:0@4",
            "shipping/0 delivered bills:0@4",
            "shipping/0 sent parcels:0@2",
            "auditor delivered parcels:0@2",
        ]
    );
}

#[test]
fn a_delivery_that_was_undone_is_no_cause() {
    let crash: fn(&mut Script) = |run| {
        run.crashed(1, true).started(1, 0);
    };
    let abort: fn(&mut Script) = |run| {
        run.aborted(1);
    };
    for undo in [crash, abort] {
        let mut run = Script::new("undone", 1, &["edge", "a/0"], &["in:0", "out:0"]);
        run.started(1, 0)
            .sent(0, at(0, 0), "")
            .sent(0, at(0, 1), "");
        run.delivered(1, at(0, 0))
            .committed(1)
            .delivered(1, at(0, 1));
        undo(&mut run);
        // The clock says nothing of either: what was undone has to be known from the trace.
        run.sent(1, at(1, 0), "").committed(1);
        let trace = run.finish();
        let sent = position(
            &trace,
            |kind| matches!(kind, Kind::Sent { at: it, .. } if *it == at(1, 0)),
        );
        assert_eq!(
            path_to(&data(&html(&trace)), sent),
            [
                "edge sent in:0@0",
                "a/0 delivered in:0@0",
                "a/0 sent out:0@0"
            ]
        );
    }
}

#[test]
fn a_held_record_whose_delivery_was_undone_is_held_again() {
    let mut run = Script::new("undone", 1, &["edge", "a/0"], &["in:0"]);
    run.started(1, 0).sent(0, at(0, 0), "");
    run.received(1, at(0, 0))
        .held(1, at(0, 0), "x:0<=1")
        .committed(1);
    run.delivered_late(1, at(0, 0))
        .crashed(1, true)
        .started(1, 1);
    run.note(None, "time passes")
        .delivered_late(1, at(0, 0))
        .committed(1);
    let page = html(&run.finish());
    let y = |i: usize| data(&page)["events"][i][1].as_f64().expect("a number");
    let from: Vec<f64> = attribute(picture(&page), "<rect class=\"hold", "y")
        .iter()
        .map(|y| y.parse().expect("a number"))
        .collect();
    assert_eq!(from, [y(2), y(7)], "from the receipt, and from the restart");
}

#[test]
fn a_send_follows_from_the_last_delivery_that_its_clock_covers() {
    let mut run = Script::new("rounds", 1, &["edge", "a/0"], &["in:0", "out:0"]);
    run.started(1, 0)
        .sent(0, at(0, 0), "")
        .sent(0, at(0, 1), "");
    run.delivered(1, at(0, 0)).delivered(1, at(0, 1));
    run.sent(1, at(1, 0), "in:0<=0")
        .sent(1, at(1, 1), "in:0<=1");
    run.sent(1, at(1, 2), "elsewhere:0<=7, in:0/edge<=9")
        .committed(1);
    let trace = run.finish();
    let data = data(&html(&trace));
    for (offset, through) in [(0, 0), (1, 1), (2, 1)] {
        let sent = position(
            &trace,
            |kind| matches!(kind, Kind::Sent { at: it, .. } if *it == at(1, offset)),
        );
        assert_eq!(
            path_to(&data, sent),
            [
                format!("edge sent in:0@{through}"),
                format!("a/0 delivered in:0@{through}"),
                format!("a/0 sent out:0@{offset}"),
            ]
        );
    }
}

#[test]
fn sends_are_told_apart_by_what_became_of_them() {
    let trace = runs::shop();
    let page = html(&trace);
    let fates: Vec<(String, String)> = data(&page)["records"]
        .as_array()
        .expect("a list of records")
        .iter()
        .map(|record| {
            (
                record[0].as_str().expect("a place").to_owned(),
                record[3].as_str().expect("a word").to_owned(),
            )
        })
        .collect();
    let fates: Vec<(&str, &str)> = fates
        .iter()
        .map(|(place, fate)| (&**place, &**fate))
        .collect();
    assert_eq!(
        fates,
        [
            ("orders:0@0", "appended"),
            ("bills:0@0", "committed"),
            ("orders:0@1", "appended"),
            ("parcels:0@0", "committed"),
            ("bills:0@2", "aborted"),
            ("bills:0@4", "committed"),
            ("parcels:0@2", "committed"),
            ("orders:0@2", "appended"),
        ]
    );
    assert_eq!(
        picture(&page).matches("class=\"stub").count(),
        1,
        "the aborted send ends in a stub"
    );
    let mut run = Script::new("open", 1, &["a/0"], &["t:0"]);
    run.started(0, 0).sent(0, at(0, 0), "");
    assert_eq!(
        data(&html(&run.finish()))["records"][0][3],
        "not yet committed"
    );
}

#[test]
fn a_hold_is_shaded_while_its_task_is_up_and_until_the_delivery() {
    let trace = runs::shop();
    let page = html(&trace);
    let picture = picture(&page);
    let y = |i: usize| data(&page)["events"][i][1].as_f64().expect("a number");
    let bands: BTreeSet<String> = attribute(picture, "<rect class=\"hold", "y")
        .iter()
        .zip(attribute(picture, "<rect class=\"hold", "height"))
        .map(|(from, height)| {
            let from: f64 = from.parse().expect("a number");
            format!(
                "{from} to {}",
                from + height.parse::<f64>().expect("a number")
            )
        })
        .collect();
    let event = |actor: usize, is_it: &dyn Fn(&Kind) -> bool| {
        y(trace
            .events
            .iter()
            .position(|event| event.actor == Some(actor) && is_it(&event.kind))
            .expect("it is there"))
    };
    let received = |actor, it| {
        event(
            actor,
            &|kind| matches!(kind, Kind::Received { at } if *at == it),
        )
    };
    let delivered = |actor, it| {
        event(
            actor,
            &|kind| matches!(kind, Kind::Delivered { at, .. } if *at == it),
        )
    };
    let height: f64 = attribute(picture, "<svg id=", "height")[0]
        .parse()
        .expect("a number");
    let restarted = y(trace
        .events
        .iter()
        .rposition(|e| matches!(e.kind, Kind::Started { restored: 1 }))
        .expect("it is there"));
    let expected: BTreeSet<String> = [
        (received(3, at(1, 0)), delivered(3, at(1, 0))),
        (
            received(4, at(2, 0)),
            event(4, &|kind| matches!(kind, Kind::Crashed { .. })),
        ),
        (restarted, delivered(4, at(2, 0))),
        (received(4, at(1, 0)), delivered(4, at(1, 0))),
        (received(4, at(2, 2)), height),
    ]
    .map(|(from, to)| format!("{from} to {to}"))
    .into();
    assert_eq!(bands, expected);
    let late = position(
        &trace,
        |kind| matches!(kind, Kind::Delivered { at: it, was_held: true } if *it == at(2, 0)),
    );
    assert_eq!(
        data(&page)["events"][late][7],
        serde_json::json!([
            "step 6: blocked by bills:0<=0",
            "held from step 6, until its task went down in step 8",
            "held from step 11 to step 14"
        ])
    );
}

#[test]
fn a_receipt_that_a_crash_undid_is_not_held_afterwards() {
    let mut run = Script::new("undone", 1, &["edge", "a/0"], &["in:0"]);
    run.started(1, 0)
        .sent(0, at(0, 0), "")
        .received(1, at(0, 0))
        .held(1, at(0, 0), "x:0<=1")
        .crashed(1, true)
        .started(1, 0);
    run.note(None, "time passes");
    let page = html(&run.finish());
    assert_eq!(
        attribute(picture(&page), "<rect class=\"hold", "class").len(),
        1,
        "only until the crash"
    );
}

#[test]
fn a_line_is_interrupted_from_a_crash_to_the_next_start() {
    let mut run = Script::new("up and down", 1, &["edge", "a/0"], &[]);
    run.started(1, 0)
        .note(Some(1), "up")
        .crashed(1, false)
        .note(None, "down")
        .started(1, 0)
        .note(Some(0), "up again");
    let page = html(&run.finish());
    let y = |i: usize| {
        format!(
            "{:.1}",
            data(&page)["events"][i][1].as_f64().expect("a number")
        )
    };
    let lines = attribute(picture(&page), "<path class=\"line task", "d");
    assert_eq!(lines.len(), 2);
    assert!(
        lines[0].ends_with(&format!("{}V{}", y(0), y(2))),
        "{}",
        lines[0]
    );
    assert!(lines[1].contains(&format!("{}V", y(4))), "{}", lines[1]);
    let down = attribute(picture(&page), "<path class=\"line down", "d");
    assert_eq!(down.len(), 2, "before the first start, and after the crash");
    assert!(
        down[1].ends_with(&format!("{}V{}", y(2), y(4))),
        "{}",
        down[1]
    );
    assert_eq!(
        attribute(picture(&page), "<path class=\"line client", "d").len(),
        1
    );
}

#[test]
fn a_line_is_dotted_until_its_task_first_starts() {
    let names = ["edge", "late/0", "never/0", "refused/0"];
    let mut run = Script::new("not yet", 1, &names, &[]);
    run.note(Some(0), "before all")
        .note(Some(1), "asked for")
        .started(1, 0);
    run.event(
        Some(3),
        Kind::Refused {
            code: "vc-missing-sink".to_owned(),
            found: "nothing there".to_owned(),
        },
    );
    let page = html(&run.finish());
    let event = |i: usize, part: usize| data(&page)["events"][i][part].as_f64().expect("a number");
    let height = attribute(picture(&page), "<svg id=", "height")[0];
    let (late, started) = (event(1, 0), event(2, 1));
    let distance = late - event(0, 0);
    let x = |column: f64| format!("{:.1}", event(0, 0) + column * distance);
    assert_eq!(
        attribute(picture(&page), "<path class=\"line down", "d"),
        [
            format!("M{} 0.0V{started:.1}", x(1.0)),
            format!("M{} 0.0V{height}.0", x(2.0)),
            format!("M{} 0.0V{height}.0", x(3.0)),
        ]
    );
    assert_eq!(
        attribute(picture(&page), "<path class=\"line task", "d"),
        [format!("M{} {started:.1}V{height}.0", x(1.0))]
    );
}

#[test]
fn a_violation_is_described_and_drawn_with_its_real_path() {
    let trace = runs::careless_ledger();
    let page = html(&trace);
    assert!(
        page.contains("<p>ledger/0 delivered bills:0@0 after parcels:0@0, which it had caused</p>")
    );
    assert!(page.contains("<span class=\"outcome ill\">violation: causal order</span>"));
    let event = |actor: usize, it: &dyn Fn(&Kind) -> bool| {
        trace
            .events
            .iter()
            .position(|event| event.actor == Some(actor) && it(&event.kind))
            .expect("it is there")
    };
    let bill = event(2, &|kind| matches!(kind, Kind::Sent { .. }));
    let bill_arrives = event(3, &|kind| matches!(kind, Kind::Delivered { .. }));
    let parcel = event(3, &|kind| matches!(kind, Kind::Sent { .. }));
    assert!(page.contains(&format!("<a href=\"#e{bill}\">bills:0@0</a> <i aria-label=\"leads to\">→</i> <a href=\"#e{parcel}\">parcels:0@0</a>")));
    let data = data(&page);
    let point = |i: usize| {
        let event = &data["events"][i];
        format!(
            "{:.1} {:.1}",
            event[0].as_f64().expect("a number"),
            event[1].as_f64().expect("a number")
        )
    };
    assert_eq!(
        attribute(picture(&page), "<path class=\"violating", "d"),
        [format!(
            "M{}L{}L{}",
            point(bill),
            point(bill_arrives),
            point(parcel)
        )]
    );
    let ledger = |it| {
        event(
            4,
            &|kind| matches!(kind, Kind::Delivered { at, .. } if *at == it),
        )
        .to_string()
    };
    assert_eq!(
        attribute(picture(&page), "<g class=\"arrow pair", "data-i"),
        [ledger(at(2, 0)), ledger(at(1, 0))]
    );
    assert!(!picture(&html(&runs::shop())).contains("violating"));
    assert!(!html(&runs::shop()).contains("<section class=\"found\""));
}

#[test]
fn text_of_a_run_cannot_become_part_of_the_page() {
    let evil = "</script><script>alert('\"1\"')</script><!--";
    let mut run = Script::new(evil, 1, &[evil, evil], &[evil]);
    run.started(1, 0)
        .sent(0, at(0, 0), evil)
        .received(1, at(0, 0))
        .held(1, at(0, 0), evil)
        .note(None, evil);
    run.event(
        Some(1),
        Kind::Refused {
            code: evil.to_owned(),
            found: evil.to_owned(),
        },
    );
    let mut trace = run.finish();
    trace.on_purpose = Some(OnPurpose {
        kind: evil.to_owned(),
        name: evil.to_owned(),
        about: evil.to_owned(),
    });
    trace.replay = Some(evil.to_owned());
    let plain = html(&runs::careless_ledger());
    trace.violation = Some(Found {
        rule: evil.to_owned(),
        text: evil.to_owned(),
        actor: Some(1),
        record: Some(at(0, 0)),
        other: None,
        path: vec![at(0, 0), at(7, 7)],
    });
    let page = html(&trace);
    let (shown, _) = page.split_once("<script").expect("a page has scripts");
    assert!(!shown.contains("alert('"));
    assert!(shown.contains("alert(&#39;&quot;1&quot;&#39;)"));
    assert!(!page.contains("<!--"));
    assert_eq!(
        page.matches("<script").count(),
        plain.matches("<script").count()
    );
    assert_eq!(
        data(&page)["records"][0][4][0],
        evil,
        "the panel gets the text as it was"
    );
}

#[test]
fn a_page_says_what_is_wrong_on_purpose_and_how_to_see_it_again() {
    let mut trace = runs::careless_ledger();
    let page = html(&trace);
    assert!(page.contains("<title>orders-billed-and-shipped, seed 7</title>"));
    for part in ["on purpose", "class=\"origin\"", "<dt>replay"] {
        assert!(!page.contains(part), "{part}");
    }
    trace.on_purpose = Some(OnPurpose {
        kind: "sabotage".to_owned(),
        name: "eager".to_owned(),
        about: "every claim counts as met".to_owned(),
    });
    let page = html(&trace);
    for part in [
        "<title>orders-billed-and-shipped, seed 7, on purpose: eager</title>",
        "violation: causal order</span> <span class=\"outcome purpose\">on purpose: eager</span></h1>",
        "<dt>wrong on purpose</dt><dd>sabotage eager, every claim counts as met</dd>",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("<dt>replay"));
    trace.replay = Some("replay --idle a,b --keep 1,4-6".to_owned());
    assert!(
        html(&trace)
            .contains("<dt>replay</dt><dd><code>replay --idle a,b --keep 1,4-6</code></dd>")
    );
    trace.on_purpose = None;
    let page = html(&trace);
    assert!(page.contains("<dl class=\"origin\"><dt>replay"));
    assert!(!page.contains("on purpose"));
}

#[test]
fn a_page_loads_nothing() {
    let page = html(&runs::shop());
    for outside in ["http:", "https:", "src=", "@import", "url(", "<link"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn what_does_not_fit_is_shortened_in_its_row_only() {
    let long = "a".repeat(300);
    let mut run = Script::new("long", 1, &[&long, "b/0"], &[]);
    run.note(Some(0), &long);
    let page = html(&run.finish());
    assert!(picture(&page).contains(&format!(">{}…<", "a".repeat(39))));
    assert_eq!(data(&page)["events"][0][6], long);
    assert!(page.contains(&format!("title=\"{long}, edge client\"")));
}

#[test]
fn an_empty_trace_is_a_page_as_well() {
    let page = html(&Script::new("nothing", 0, &[], &[]).finish());
    assert_eq!(data(&page)["events"], Value::Array(Vec::new()));
    assert!(page.ends_with("</html>\n"));
}
