//! What a host does with a model over several executions.

use std::collections::{BTreeMap, BTreeSet};

use parsley_model::{
    Channel, Clock, Fetched, Model, OpenLine, Stamp, Wait, channel, named, parse, topic_of,
};

const BUDGET: usize = 4096;

fn on(name: &str) -> Channel {
    channel(named(name), 0)
}

fn line(positions: &BTreeMap<Channel, i64>) -> OpenLine {
    OpenLine {
        name: "shop/settle/0".to_owned(),
        inputs: BTreeSet::from([on("orders"), on("payments")]),
        sinks: BTreeMap::from([(topic_of(on("settled")), 1)]),
        start: positions.clone(),
        group_has_positions: !positions.is_empty(),
        ..OpenLine::default()
    }
}

fn claiming(offset: i64, claim: impl FnOnce(&mut Clock)) -> Fetched {
    let mut clock = Clock::default();
    claim(&mut clock);
    Fetched::claiming(offset, &clock)
}

/// A model that holds a payment for an order, and the positions that were committed with it.
fn holding() -> (Model, BTreeMap<Channel, i64>) {
    let mut model = Model::with_budget(BUDGET);
    model.open(&line(&BTreeMap::new())).expect("a first start");
    let payment = claiming(4, |clock| clock.claim_offset(on("orders"), 2));
    assert_eq!(model.receive(on("payments"), &payment), Ok(false));
    assert_eq!(model.deliver_next(), None);
    let positions = model.commit(&BTreeMap::new());
    assert_eq!(positions, model.resume_positions());
    (model, positions)
}

#[test]
fn a_second_model_over_the_committed_bytes_goes_on_where_the_first_stopped() {
    let (first, positions) = holding();
    assert_eq!(positions, BTreeMap::from([(on("payments"), 5)]));
    let mut second = Model::over(first.store().clone(), BUDGET);
    second.open(&line(&positions)).expect("a restart");
    assert_eq!(second.holds(), first.holds());
    assert_eq!(second.held(), 1);
    second
        .receive(on("orders"), &claiming(2, |_| {}))
        .expect("the next order");
    let delivered: Vec<_> = second.drain().iter().map(|delivery| delivery.on).collect();
    assert_eq!(delivered, [on("orders"), on("payments")]);
}

#[test]
fn a_clone_goes_its_own_way() {
    let (model, _) = holding();
    let mut other = model.clone();
    other.position(on("orders"), 3).expect("evidence");
    assert_eq!(other.drain().len(), 1);
    assert_eq!(model.held(), 1);
    assert!(!model.deliverable());
}

#[test]
fn an_abort_takes_back_what_the_step_did_and_nothing_else() {
    let (mut model, positions) = holding();
    let before = model.store().clone();
    model.position(on("orders"), 3).expect("evidence");
    assert_eq!(model.drain().len(), 1);
    let stamp = model.send(on("settled")).expect("a send");
    model.abort();
    assert!(!model.running());
    assert_eq!(model.store(), &before);
    model.open(&line(&positions)).expect("a restart");
    model.position(on("orders"), 3).expect("evidence");
    assert_eq!(model.drain().len(), 1);
    assert_eq!(model.send(on("settled")), Ok(stamp));
}

#[test]
fn sequence_claims_are_counted_until_a_watermark_turns_them_into_offsets() {
    let (mut model, _) = holding();
    let alice = named("alice");
    let unresolved = claiming(0, |clock| clock.claim_sequence(on("refunds"), alice, 7));
    model.receive(on("orders"), &unresolved).expect("an order");
    assert_eq!(model.drain().len(), 1);
    model.send(on("settled")).expect("a send");
    model.fence(&BTreeMap::new());
    assert_eq!(model.sequence_claims(), 2);
    assert_eq!(
        model.channels_claimed_by_sequence(),
        BTreeSet::from([on("refunds"), on("settled")])
    );
    let mark = model.mark();
    model.watermarks(
        &mark,
        &BTreeMap::from([(on("refunds"), 20), (on("settled"), 1)]),
    );
    assert_eq!(model.sequence_claims(), 0);
    let Stamp { clock, .. } = model.send(on("settled")).expect("a send");
    assert_eq!(clock.offsets.get(&on("refunds")), Some(&19));
    assert_eq!(clock.offsets.get(&on("settled")), Some(&0));
}

#[test]
fn a_head_that_sequence_claims_alone_block_is_named_and_released_by_evidence() {
    let (mut model, _) = holding();
    model.position(on("orders"), 3).expect("evidence");
    assert_eq!(model.drain().len(), 1);
    let alice = named("alice");
    let payment = claiming(5, |clock| clock.claim_sequence(on("orders"), alice, 0));
    model.receive(on("payments"), &payment).expect("a payment");
    assert_eq!(model.drain(), []);
    assert_eq!(
        model.waited_for_by_sequence(),
        BTreeSet::from([on("orders")])
    );
    let [hold] = &model.holds()[..] else {
        panic!("one head is held")
    };
    assert!(matches!(
        hold.waits[..],
        [Wait::Sequence { sequence: 0, .. }]
    ));
    let mark = model.mark();
    model.watermarks(&mark, &BTreeMap::from([(on("orders"), 3)]));
    assert_eq!(model.drain().len(), 1);
}

#[test]
fn a_check_that_refuses_ends_the_execution_and_keeps_the_bytes() {
    let (mut model, _) = holding();
    let before = model.store().clone();
    let gone = BTreeSet::from([topic_of(on("payments"))]);
    let refused = model.check(&BTreeMap::new(), &gone).expect_err("G9");
    assert_eq!(refused.code, "vc-deleted-input-held");
    assert_eq!(
        (refused.on, refused.offset),
        (Some(on("payments")), Some(4))
    );
    assert!(!model.running());
    assert_eq!(model.store(), &before);
    let state = parse(model.store()).expect("the model's own bytes");
    assert_eq!(state.held[&on("payments")].len(), 1);
}
