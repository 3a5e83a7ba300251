//! The stamp and its terms.

use crate::{Case, Host};

/// A send after a delivery that names what this node does not receive.
fn a_send_after_a_delivery(host: &mut Host) {
    host.open("a", "s");
    host.feed("a", 0, "z<=4");
    host.send("s");
}

const BOTH_TERMS: &str = "a0 s#0[a<=0 z<=4]";
const DELIVERED_TERM: &str = "a0 s#0[a<=0]";

pub const NO_FOLD_AT_DELIVERY: Case = Case {
    history: a_send_after_a_delivery,
    right: BOTH_TERMS,
    wrong: DELIVERED_TERM,
};

pub const FOLD_RECEIVED_CHANNELS_ONLY: Case = Case {
    history: |host| {
        host.open("ab", "s");
        host.feed("b", 0, "");
        host.feed("a", 0, "b<=0 z<=4 z/alice<=1");
        host.send("s");
    },
    right: "b0 a0 s#0[a<=0 b<=0 z<=4 z/alice<=1]",
    wrong: "b0 a0 s#0[a<=0 b<=0]",
};

pub const DROP_DELIVERED_TERM: Case = Case {
    history: a_send_after_a_delivery,
    right: BOTH_TERMS,
    wrong: "a0 s#0[z<=4]",
};

pub const DROP_ADVERTISED_TERM: Case = Case {
    history: a_send_after_a_delivery,
    right: BOTH_TERMS,
    wrong: DELIVERED_TERM,
};

pub const DROP_CARRIED_TERM: Case = Case {
    history: |host| {
        host.open("ab", "s");
        host.feed("a", 0, "z<=4");
        host.feed("b", 0, "y<=1");
        host.redeclare("b", "s");
        host.send("s");
    },
    right: "a0 b0 redeclare s#0[a<=0 b<=0 y<=1 z<=4]",
    wrong: "a0 b0 redeclare s#0[b<=0 y<=1]",
};

/// What was there at the initialisation, and what was acknowledged since.
fn sends_one_after_another(host: &mut Host) {
    host.ends(&[("u", 3)]);
    host.open("a", "stu");
    host.send("s");
    host.commit(&[("s", 7)]);
    host.send("t");
    host.commit(&[]);
    host.send("u");
}

const OWN_TERM: &str = "s#0[u<=2] t#0[s<=7 u<=2] u#0[s<=7 u<=2 t/me<=0]";

pub const DROP_OWN_TERM: Case = Case {
    history: sends_one_after_another,
    right: OWN_TERM,
    wrong: "s#0[] t#0[] u#0[]",
};

pub const FORGET_ACKNOWLEDGEMENTS: Case = Case {
    history: sends_one_after_another,
    right: OWN_TERM,
    wrong: "s#0[u<=2] t#0[u<=2] u#0[u<=2]",
};

/// Two sends of one round: neither may claim the other.
pub const CLAIM_THE_UNACKNOWLEDGED: Case = Case {
    history: |host| {
        host.open("a", "st");
        host.send("s");
        host.send("t");
        host.commit(&[("s", 0), ("t", 0)]);
        host.send("s");
    },
    right: "s#0[] t#0[] s#1[s<=0 t<=0]",
    wrong: "s#0[] t#0[s/me<=0] s#1[s<=0 t<=0]",
};

pub const REUSE_A_SEQUENCE: Case = Case {
    history: |host| {
        host.open("a", "s");
        host.send("s");
        host.send("s");
        host.commit(&[("s", 1)]);
        host.send("s");
    },
    right: "s#0[] s#1[] s#2[s<=1]",
    wrong: "s#0[] s#0[] s#1[s<=1]",
};
