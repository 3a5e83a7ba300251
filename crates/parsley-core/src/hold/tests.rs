//! Hold codes are part of what operators rely on.

use super::*;

#[test]
fn the_codes_are_these() {
    assert_eq!(
        HoldCode::ALL.map(HoldCode::as_str),
        [
            "vc-hold-not-fetched",
            "vc-hold-held-upstream",
            "vc-hold-sender-unseen",
            "vc-hold-sender-behind",
        ]
    );
    for code in HoldCode::ALL {
        assert_eq!(code.to_string(), code.as_str());
    }
}
