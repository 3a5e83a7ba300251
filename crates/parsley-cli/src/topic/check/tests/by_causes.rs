//! What really happened before what, from `sent`: clocks may say what they want.

use super::*;

/// `first` is delivered x and sends a; `second` is delivered a and sends b, which comes of x.
fn chain() -> [Value; 2] {
    let a = delivered_of("second", 0, ("a", 0), ("first", 0), clock(&[("x", 0)]));
    [
        sending(delivered("first", 0, "x", 0), &[("a", 0, 0)]),
        sending(a, &[("b", 0, 0)]),
    ]
}

fn b(number: u64, clock: Value) -> Value {
    delivered_of("third", number, ("b", 0), ("second", 0), clock)
}

#[test]
fn an_effect_of_an_effect_comes_after_its_cause() {
    let whole = clock(&[("x", 0), ("a", 0)]);
    let chain = chain();
    let good = [delivered("third", 0, "x", 0), b(1, whole.clone())];
    assert_eq!(found(&[&chain, &good]), []);
    // In whatever order the files are named.
    assert_eq!(found(&[&good, &chain]), []);
    let late = [b(0, whole), delivered("third", 1, "x", 0)];
    let expected = [
        (Kind::DeliveredAfterClaim, Some(0)),
        (Kind::DeliveredAfterEffect, Some(0)),
    ];
    assert_eq!(found(&[&chain, &late]), expected);
}

/// A stamp that claims too little is found although the order was right by luck, and the order is judged although no clock tells.
#[test]
fn a_stamp_that_claims_too_little_hides_nothing() {
    let less = clock(&[("a", 0)]);
    let chain = chain();
    let lucky = [delivered("third", 0, "x", 0), b(1, less.clone())];
    assert_eq!(found(&[&chain, &lucky]), [(Kind::StampIncomplete, Some(0))]);
    let late = [b(0, less.clone()), delivered("third", 1, "x", 0)];
    let expected = [
        (Kind::DeliveredAfterEffect, Some(0)),
        (Kind::StampIncomplete, Some(0)),
    ];
    assert_eq!(found(&[&chain, &late]), expected);
    // Retention has taken what is not claimed any more: then it may have been truncated.
    assert_eq!(found(&[&chain, &lucky, &[plain("x", 9)]]), []);
    // A claim by sequence is a claim.
    let mut by_sequence = by_sequence("a", "first", 0);
    by_sequence["offsets"] = clock(&[("x", 0)])["offsets"].clone();
    let good = [delivered("third", 0, "x", 0), b(1, by_sequence)];
    assert_eq!(found(&[&chain, &good]), []);
}

#[test]
fn a_cause_that_never_came_is_missed() {
    let chain = chain();
    let history = [
        delivered("third", 0, "x", 0),
        b(1, clock(&[("x", 1), ("a", 0)])),
    ];
    assert_eq!(found(&[&chain, &history]), []);
    let more = [
        sending(delivered("first", 0, "x", 1), &[("a", 0, 0)]),
        chain[1].clone(),
    ];
    // `first` was delivered x@1 and sent a for it; `third` began with x@0 and never saw x@1.
    let found = found(&[&more, &history]);
    assert!(found.contains(&(Kind::NotDelivered, Some(1))), "{found:?}");
}

#[test]
fn a_record_is_sent_once_and_with_the_next_sequence() {
    let send = |number: u64, offset: i64, sequence: i64| {
        let line = delivered("first", number, "x", number as i64);
        sending(line, &[("a", offset, sequence)])
    };
    assert_eq!(found(&[&[send(0, 0, 4), send(1, 3, 5)]]), []);
    assert_eq!(
        found(&[&[send(0, 0, 4), send(1, 3, 6)]]),
        [(Kind::SequenceGap, Some(3))]
    );
    assert_eq!(
        found(&[&[send(0, 0, 4), send(1, 3, 3)]]),
        [(Kind::SequenceOrder, Some(3))]
    );
    let twice = found(&[&[send(0, 0, 4), send(1, 0, 5)]]);
    assert!(twice.contains(&(Kind::SentTwice, Some(0))), "{twice:?}");
    let delivered = delivered_of("second", 0, ("a", 0), ("first", 7), clock(&[("x", 0)]));
    assert_eq!(
        found(&[&[delivered, send(0, 0, 4)]]),
        [(Kind::Contradiction, Some(0))]
    );
}

/// Each is delivered what the other sent only later: that cannot have been, and the rest is judged nevertheless.
#[test]
fn a_circle_is_found_and_gone_through() {
    let circle = |stage: &str, to: &str, from: &str, other: &str| {
        [
            delivered_of(stage, 0, (from, 0), (other, 0), clock(&[])),
            sending(delivered(stage, 1, "x", 0), &[(to, 0, 0)]),
        ]
    };
    let (one, two) = (
        circle("one", "a", "b", "two"),
        circle("two", "b", "a", "one"),
    );
    let found = found(&[&one, &two]);
    let circles = found
        .iter()
        .filter(|found| found.0 == Kind::DeliveredBeforeSent);
    assert_eq!(circles.count(), 1, "{found:?}");
}
