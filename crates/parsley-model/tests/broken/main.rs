//! Every broken protocol differs from the right one on a minimal history, in just the way its name says.

mod decision;
mod host;
mod scope;
mod stamp;
mod state;

use std::collections::BTreeSet;

use host::Host;
use parsley_model::{Broken, UnknownBroken};

/// A history, what the right model makes of it and what the broken one does. Deliveries are `a0`, drops `-a0`, stamps
/// `s#0[a<=0]`.
pub struct Case {
    history: fn(&mut Host),
    right: &'static str,
    wrong: &'static str,
}

fn case(broken: Broken) -> Case {
    match broken {
        Broken::IgnorePositions => decision::IGNORE_POSITIONS,
        Broken::LoseOffsetThree => decision::LOSE_OFFSET_THREE,
        Broken::Eager => decision::EAGER,
        Broken::IgnoreOffsetClaims => decision::IGNORE_OFFSET_CLAIMS,
        Broken::IgnoreSequenceClaims => decision::IGNORE_SEQUENCE_CLAIMS,
        Broken::FedForSettled => decision::FED_FOR_SETTLED,
        Broken::OffByOneSettled => decision::OFF_BY_ONE_SETTLED,
        Broken::UndefinedSettledAsEverything => decision::UNDEFINED_SETTLED_AS_EVERYTHING,
        Broken::ReceivedForDelivered => decision::RECEIVED_FOR_DELIVERED,
        Broken::ClaimsOnOwnChannelBlock => decision::CLAIMS_ON_OWN_CHANNEL_BLOCK,
        Broken::UnreceivedChannelsBlock => decision::UNRECEIVED_CHANNELS_BLOCK,
        Broken::DeletedChannelsBlock => decision::DELETED_CHANNELS_BLOCK,
        Broken::BreakFifo => decision::BREAK_FIFO,
        Broken::RedeliverWhatWasFedAgain => state::REDELIVER_WHAT_WAS_FED_AGAIN,
        Broken::CorruptClockAsEmpty => decision::CORRUPT_CLOCK_AS_EMPTY,
        Broken::NoFoldAtDelivery => stamp::NO_FOLD_AT_DELIVERY,
        Broken::FoldReceivedChannelsOnly => stamp::FOLD_RECEIVED_CHANNELS_ONLY,
        Broken::DropDeliveredTerm => stamp::DROP_DELIVERED_TERM,
        Broken::DropAdvertisedTerm => stamp::DROP_ADVERTISED_TERM,
        Broken::DropCarriedTerm => stamp::DROP_CARRIED_TERM,
        Broken::DropOwnTerm => stamp::DROP_OWN_TERM,
        Broken::ForgetAcknowledgements => stamp::FORGET_ACKNOWLEDGEMENTS,
        Broken::ClaimTheUnacknowledged => stamp::CLAIM_THE_UNACKNOWLEDGED,
        Broken::ReuseASequence => stamp::REUSE_A_SEQUENCE,
        Broken::SettledForFedInEvidence => decision::SETTLED_FOR_FED_IN_EVIDENCE,
        Broken::EvidenceWithoutMark => decision::EVIDENCE_WITHOUT_MARK,
        Broken::EvidenceDespiteHeld => decision::EVIDENCE_DESPITE_HELD,
        Broken::EvidenceOneEarly => decision::EVIDENCE_ONE_EARLY,
        Broken::KeepStateAfterAbort => state::KEEP_STATE_AFTER_ABORT,
        Broken::ForgetHeldAtRestore => state::FORGET_HELD_AT_RESTORE,
        Broken::ForgetHeldClocksAtRestore => state::FORGET_HELD_CLOCKS_AT_RESTORE,
        Broken::ForgetSendSequencesAtRestore => state::FORGET_SEND_SEQUENCES_AT_RESTORE,
        Broken::ForgetPastAtRestore => state::FORGET_PAST_AT_RESTORE,
        Broken::ForgetDeliveredMarksAtRestore => state::FORGET_DELIVERED_MARKS_AT_RESTORE,
        Broken::JoinWithoutSeed => scope::JOIN_WITHOUT_SEED,
        Broken::JoinWithoutEnd => scope::JOIN_WITHOUT_END,
        Broken::ForgetRemovedInput => scope::FORGET_REMOVED_INPUT,
        Broken::ForgetRemovedSink => scope::FORGET_REMOVED_SINK,
        Broken::DiscardHeldOfRemovedInput => scope::DISCARD_HELD_OF_REMOVED_INPUT,
        Broken::TruncateAboveBound => scope::TRUNCATE_ABOVE_BOUND,
        Broken::IgnoreLostPositions => scope::IGNORE_LOST_POSITIONS,
        Broken::IgnoreDeletedHeld => scope::IGNORE_DELETED_HELD,
    }
}

fn run(history: fn(&mut Host), broken: Option<Broken>) -> String {
    let mut host = Host::breaking(broken);
    history(&mut host);
    host.said()
}

#[test]
fn each_broken_protocol_differs_as_its_name_says_and_the_right_one_does_not() {
    for &broken in Broken::ALL {
        let Case {
            history,
            right,
            wrong,
        } = case(broken);
        assert_ne!(right, wrong, "{broken}: nothing is shown");
        assert_eq!(run(history, None), right, "{broken}: the right protocol");
        assert_eq!(run(history, Some(broken)), wrong, "{broken}");
    }
}

/// Deliveries alone, without what was sent or said otherwise.
fn deliveries(said: &str) -> Vec<&str> {
    let plain = |word: &&str| word.len() == 2 && word.as_bytes()[1].is_ascii_digit();
    said.split(' ').filter(plain).collect()
}

/// What claims too early breaks liveness between nodes, and no history of a single one shows it.
#[test]
fn what_wedges_delivers_less_and_nothing_in_another_order() {
    let mut wedging = 0;
    for &broken in Broken::ALL {
        if !broken.wedges() || broken == Broken::ClaimTheUnacknowledged {
            continue;
        }
        wedging += 1;
        let case = case(broken);
        let (right, wrong) = (deliveries(case.right), deliveries(case.wrong));
        assert!(wrong.len() < right.len(), "{broken}");
        let mut rest = right.iter();
        assert!(
            wrong.iter().all(|one| rest.any(|other| other == one)),
            "{broken}: {wrong:?} is no part of {right:?}"
        );
    }
    assert_eq!(wedging, 6);
}

#[test]
fn a_name_is_read_back_and_no_two_are_alike() {
    let mut names = BTreeSet::new();
    for &broken in Broken::ALL {
        let name = broken.as_str();
        assert!(
            name.split('-')
                .all(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase())),
            "{name}"
        );
        assert_eq!(name.parse(), Ok(broken));
        assert!(names.insert(name), "{name} twice");
        assert!(!broken.about().is_empty() && !broken.about().contains('\n'));
    }
    assert_eq!(
        "Eager".parse::<Broken>(),
        Err(UnknownBroken {
            name: "Eager".to_owned()
        })
    );
}

/// What a broken protocol leaves behind has to be readable, or it would be condemned for that and not for what it breaks.
#[test]
fn every_broken_protocol_restores_what_it_committed() {
    for &broken in Broken::ALL {
        let mut host = Host::breaking(Some(broken));
        (case(broken).history)(&mut host);
        if !host.runs() {
            continue;
        }
        host.restart();
        assert!(host.runs(), "{broken}: {}", host.said());
    }
}

/// A record overtakes a head that has its place in the stored queue, and one that was delivered comes again below it.
#[test]
fn a_stored_queue_stays_dense_when_a_record_is_put_in_or_taken_out_in_front() {
    let mut overtakes = Host::breaking(Some(Broken::BreakFifo));
    overtakes.open("abc", "");
    overtakes.feed("b", 0, "a<=0");
    overtakes.feed("b", 1, "c<=0");
    overtakes.feed("b", 2, "a<=0");
    overtakes.restart();
    overtakes.feed("c", 0, "");
    overtakes.restart();
    overtakes.feed("a", 0, "");
    assert_eq!(overtakes.said(), "restart c0 b1 restart a0 b0 b2");

    let mut at_once = Host::breaking(Some(Broken::BreakFifo));
    at_once.open("ab", "");
    at_once.feed("b", 0, "a<=0");
    at_once.feed("b", 1, "");
    at_once.restart();
    at_once.feed("a", 0, "");
    assert_eq!(at_once.said(), "b1 restart a0 b0");

    let mut redelivers = Host::breaking(Some(Broken::RedeliverWhatWasFedAgain));
    redelivers.open("abc", "");
    redelivers.feed("b", 0, "");
    redelivers.feed("b", 1, "a<=0");
    redelivers.restart();
    redelivers.feed_undrained("b", 0, "");
    redelivers.restart();
    redelivers.feed("b", 1, "a<=0");
    redelivers.feed("b", 2, "");
    redelivers.feed("a", 0, "");
    assert_eq!(redelivers.said(), "b0 restart restart b0 -b1 a0 b1 b2");
}
