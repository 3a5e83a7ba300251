//! What a person reads.

use parsley_oracle::{Actor, Channel, Emission, Oracle, Rule, SendOrder};

struct Shop {
    oracle: Oracle,
    client: Actor,
    settle: Actor,
    orders: Channel,
    payments: Channel,
    order: Emission,
    receipt: Emission,
}

/// A client orders; pay is delivered that, and sends a payment and then a receipt. Settle consumes orders from 5 on, and receipts.
fn shop() -> Shop {
    let mut oracle = Oracle::new();
    let client = oracle.add_actor("client", SendOrder::Sequential);
    let pay = oracle.add_actor("pay/0", SendOrder::PerDelivery);
    let settle = oracle.add_actor("settle/0", SendOrder::PerDelivery);
    let orders = oracle.add_channel("orders:0");
    let payments = oracle.add_channel("payments:1");
    let receipts = oracle.add_channel("receipts:0");
    oracle.consume(pay, orders, 0);
    oracle.consume(settle, orders, 5);
    oracle.consume(settle, receipts, 0);
    let order = oracle.emit(client, orders, None);
    oracle.appended(order, 5).expect("the place is free");
    oracle.commit(client);
    oracle
        .deliver(pay, orders, 5)
        .expect("nothing is before it");
    let payment = oracle.emit(pay, payments, None);
    let receipt = oracle.emit(pay, receipts, None);
    oracle.appended(payment, 2).expect("the place is free");
    oracle.appended(receipt, 0).expect("the place is free");
    oracle.commit(pay);
    Shop {
        oracle,
        client,
        settle,
        orders,
        payments,
        order,
        receipt,
    }
}

#[test]
fn a_causal_violation_names_both_records_and_the_way_between() {
    let mut shop = shop();
    let receipts = shop.oracle.channel(shop.receipt);
    let violation = shop.oracle.deliver(shop.settle, receipts, 0).unwrap_err();
    assert_eq!(
        violation.to_string(),
        "causal order: actor 2, channel 2, offset 0"
    );
    assert_eq!(
        shop.oracle.explain(&violation),
        "causal order: settle/0 was handed receipts:0@0 before its cause orders:0@5\n  \
         path: orders:0@5 -> receipts:0@0 (sent by pay/0, which had been handed it)"
    );
    let violation = shop
        .oracle
        .deliver(shop.settle, shop.orders, 5)
        .unwrap_err();
    assert_eq!(
        shop.oracle.explain(&violation),
        "re-entry: settle/0 was handed orders:0@5 after receipts:0@0, of whose past it is\n  \
         path: orders:0@5 -> receipts:0@0 (sent by pay/0, which had been handed it)"
    );
}

#[test]
fn a_hop_between_own_sends_says_so() {
    let mut shop = shop();
    let reader = shop.oracle.add_actor("reader", SendOrder::PerDelivery);
    let receipts = shop.oracle.channel(shop.receipt);
    shop.oracle.consume(reader, receipts, 0);
    shop.oracle.consume(reader, shop.payments, 0);
    let violation = shop.oracle.deliver(reader, receipts, 0).unwrap_err();
    assert_eq!(
        shop.oracle.explain(&violation),
        "causal order: reader was handed receipts:0@0 before its cause payments:1@2\n  \
         path: payments:1@2 -> receipts:0@0 (sent by pay/0, which had sent it)"
    );
}

#[test]
fn the_other_rules_are_told_in_a_line() {
    let mut shop = shop();
    let oracle = &mut shop.oracle;
    let (client, settle, orders) = (shop.client, shop.settle, shop.orders);
    let mut told = Vec::new();
    let mut hand = |oracle: &mut Oracle, channel, offset| {
        if let Err(violation) = oracle.deliver(settle, channel, offset) {
            told.push(oracle.explain(&violation));
        }
    };
    for (offset, commits) in [(3, true), (6, true), (7, false)] {
        let emission = oracle.emit(client, orders, None);
        oracle
            .appended(emission, offset)
            .expect("the place is free");
        if commits {
            oracle.commit(client);
        }
    }
    hand(oracle, orders, 9);
    hand(oracle, orders, 7);
    oracle.abort(client);
    hand(oracle, orders, 7);
    hand(oracle, shop.payments, 2);
    oracle.abort(settle);
    hand(oracle, orders, 3);
    oracle.abort(settle);
    hand(oracle, orders, 5);
    hand(oracle, orders, 5);
    oracle.abort(settle);
    let alice = oracle.add_actor("alice", SendOrder::Sequential);
    let bob = oracle.add_actor("bob", SendOrder::Sequential);
    for (actor, offset) in [(alice, 8), (bob, 9)] {
        let emission = oracle.emit(actor, orders, None);
        oracle
            .appended(emission, offset)
            .expect("the place is free");
        oracle.commit(actor);
    }
    hand(oracle, orders, 9);
    hand(oracle, orders, 8);
    assert_eq!(
        told,
        [
            "phantom: settle/0 was handed orders:0@9, where no business record stands",
            "phantom: settle/0 was handed orders:0@7, whose step has not committed",
            "phantom: settle/0 was handed orders:0@7, whose step was aborted",
            "phantom: settle/0 was handed payments:1@2, of a channel it does not consume",
            "below baseline: settle/0 was handed orders:0@3, and consumes the channel from 5 on",
            "duplicate: settle/0 was handed orders:0@5 again",
            "fifo: settle/0 was handed orders:0@8 after orders:0@9",
        ]
    );
}

#[test]
fn what_is_lacking_in_the_end_is_told_in_a_line() {
    let mut shop = shop();
    let late = shop.oracle.emit(shop.client, shop.payments, None);
    shop.oracle.commit(shop.client);
    let told: Vec<String> = shop
        .oracle
        .complete()
        .iter()
        .map(|violation| shop.oracle.explain(violation))
        .collect();
    assert_eq!(
        told,
        [
            "lost: settle/0 was never handed orders:0@5",
            "lost: settle/0 was never handed receipts:0@0",
            "unsent: client committed the send of payments:1 (emission 3, nowhere), and it was never appended",
        ]
    );
    assert_eq!(shop.oracle.label(shop.order), "orders:0@5");
    assert_eq!(shop.oracle.label(late), "payments:1 (emission 3, nowhere)");
    let unsent = shop.oracle.complete().pop().expect("the send is lacking");
    assert_eq!(
        unsent.to_string(),
        "unsent: actor 0, channel 1, offset none"
    );
}

#[test]
fn a_baseline_that_is_gone_is_not_told() {
    let mut shop = shop();
    let emission = shop.oracle.emit(shop.client, shop.orders, None);
    shop.oracle
        .appended(emission, 0)
        .expect("the place is free");
    shop.oracle.commit(shop.client);
    let violation = shop
        .oracle
        .deliver(shop.settle, shop.orders, 0)
        .unwrap_err();
    shop.oracle.stop_consuming(shop.settle, shop.orders);
    assert_eq!(
        shop.oracle.explain(&violation),
        "below baseline: settle/0 was handed orders:0@0 from below where it consumed the channel"
    );
}

#[test]
fn rules_have_short_names_of_their_own() {
    let names: Vec<String> = Rule::ALL.iter().map(Rule::to_string).collect();
    let expected = [
        "phantom",
        "below baseline",
        "duplicate",
        "fifo",
        "re-entry",
        "causal order",
        "lost",
        "unsent",
    ];
    assert_eq!(names, expected);
    assert!(Rule::ALL.is_sorted());
}
