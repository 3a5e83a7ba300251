//! Codes are part of what operators rely on.

use std::collections::BTreeSet;

use super::*;
use crate::channel::{Id, TopicId};

#[test]
fn the_codes_are_these_in_guard_order() {
    let codes = RefusalCode::ALL.map(RefusalCode::as_str);
    assert_eq!(
        codes,
        [
            "vc-corrupt-clock",
            "vc-corrupt-sender",
            "vc-unconsumed-channel",
            "vc-out-of-order-feed",
            "vc-undeclared-sink",
            "vc-missing-sink",
            "vc-corrupt-state",
            "vc-removed-input-held",
            "vc-deleted-input-held",
            "vc-positions-lost",
            "vc-state-lost",
            "vc-identity-changed",
            "vc-clock-too-wide",
            "vc-reserved-header",
            "vc-task-width",
            "vc-positions-ahead",
        ]
    );
    assert_eq!(BTreeSet::from(codes).len(), 16);
    assert!(RefusalCode::ALL.is_sorted());
    for code in RefusalCode::ALL {
        assert_eq!(code.to_string(), code.as_str());
    }
}

#[test]
fn every_code_says_what_to_do_about_it() {
    let remedies = RefusalCode::ALL.map(RefusalCode::remedy);
    assert_eq!(BTreeSet::from(remedies).len(), 16);
    for (code, remedy) in RefusalCode::ALL.into_iter().zip(remedies) {
        assert!(remedy.len() > 20, "{code}: {remedy}");
        assert!(!remedy.ends_with('.'), "{code}: {remedy}");
    }
}

#[test]
fn a_refusal_shows_code_coordinate_finding_and_remedy() {
    let channel = TopicId(Id { msb: 0, lsb: 1 }).partition(7);
    let shown_channel = "00000000-0000-0000-0000-000000000001:7";
    for code in RefusalCode::ALL {
        let remedy = code.remedy();
        let at = Refusal::at(code, channel, 42, "it was so");
        assert_eq!(
            at.to_string(),
            format!("{code} at {shown_channel}@42: it was so; {remedy}")
        );
        assert_eq!((at.channel, at.offset), (Some(channel), Some(42)));
        let on = Refusal::on(code, channel, "it was so");
        assert_eq!(
            on.to_string(),
            format!("{code} on {shown_channel}: it was so; {remedy}")
        );
        assert_eq!((on.channel, on.offset), (Some(channel), None));
        let of_node = Refusal::of_node(code, "it was so");
        assert_eq!(of_node.to_string(), format!("{code}: it was so; {remedy}"));
        assert_eq!((of_node.channel, of_node.offset), (None, None));
        assert_eq!(of_node.code, code);
        assert_eq!(of_node.found, "it was so");
    }
}
