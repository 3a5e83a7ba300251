//! Counts allocations: the receive path reads clocks where they lie.

use allocation_counter::{AllocationInfo, measure};
use parsley_core::decide::{Causes, Settled, SettledView, Verdict, decide};
use parsley_core::wire::{self, Decoded};
use parsley_core::{Channel, Clock, Offset, ReceivedChannels, SenderId, TopicId};

const WIDTH: i32 = 64;

fn channels() -> impl Iterator<Item = Channel> {
    (0..WIDTH).map(|i| TopicId::of_name(&format!("topic {}", i % 8)).partition(i / 8))
}

/// A clock of 48 offset claims and 16 sequence claims.
fn wide_clock() -> Clock {
    let mut clock = Clock::new();
    for (i, channel) in channels().enumerate() {
        if i % 4 == 0 {
            clock.claim_sequence(channel, SenderId::of_name("alice"), i as i64);
        } else {
            clock.claim_offset(channel, i as i64);
        }
    }
    assert_eq!(clock.width(), WIDTH as usize);
    clock
}

/// Everything was delivered up to position 100, and every sender's sequence up to 100.
struct Delivered;

impl SettledView for Delivered {
    fn settled(&self, _: usize) -> Settled {
        Settled::At(100)
    }
    fn delivered_sequence(&self, _: usize, _: SenderId) -> Option<i64> {
        Some(100)
    }
    fn fed_up_to(&self, _: usize) -> Option<Offset> {
        Some(100)
    }
    fn watermark(&self, _: usize) -> Option<Offset> {
        None
    }
    fn lowest_held_sequence(&self, _: usize, _: SenderId) -> Option<i64> {
        None
    }
}

fn none(info: AllocationInfo) -> bool {
    info.count_total == 0 && info.bytes_total == 0
}

#[test]
fn decode_decide_and_fold_at_width_64_allocate_nothing() {
    let bytes = wire::encode(&wide_clock());
    let received = ReceivedChannels::new(channels());
    let mut folded = wide_clock();
    let mut verdict = None;
    let counted = measure(|| {
        let Ok(Decoded::InOrder(clock)) = wire::decode(&bytes) else {
            return;
        };
        verdict = Some(decide(
            Causes::of(&clock, TopicId::of_name("own").partition(0)),
            &received,
            &Delivered,
        ));
        folded.merge(&clock);
    });
    assert_eq!(verdict, Some(Verdict::Deliverable), "all of it ran");
    assert!(none(counted), "{counted:?}");
    assert!(!none(measure(|| drop(wide_clock()))), "the counter counts");
}

#[test]
fn a_count_that_the_bytes_do_not_have_reserves_nothing() {
    let mut bytes = vec![wire::CLOCK_VERSION];
    bytes.extend_from_slice(&i32::MAX.to_be_bytes());
    let mut refused = false;
    let counted = measure(|| refused = wire::decode(&bytes).is_err());
    assert!(refused && none(counted), "{counted:?}");
}
