//! What is committed and restored, and what is fed again.

use crate::{Case, Host};

pub const REDELIVER_WHAT_WAS_FED_AGAIN: Case = Case {
    history: |host| {
        host.open("ab", "");
        host.feed("a", 0, "");
        host.feed("a", 1, "");
        host.feed("a", 2, "b<=0");
        host.rewind("a", 1);
        for (offset, claims) in [(1, ""), (2, "b<=0"), (3, "")] {
            host.feed("a", offset, claims);
        }
        host.feed("b", 0, "");
    },
    right: "a0 a1 rewind -a1 -a2 b0 a2 a3",
    wrong: "a0 a1 rewind a1 -a2 b0 a2 a3",
};

pub const KEEP_STATE_AFTER_ABORT: Case = Case {
    history: |host| {
        host.open("a", "s");
        host.feed("a", 0, "");
        host.commit(&[]);
        host.feed("a", 1, "");
        host.send("s");
        host.crash();
        host.feed("a", 1, "");
        host.send("s");
    },
    right: "a0 a1 s#0[a<=1] crash a1 s#0[a<=1]",
    wrong: "a0 a1 s#0[a<=1] crash -a1 s#1[a<=1]",
};

fn a_hold_across_a_restart(host: &mut Host) {
    host.open("ab", "");
    host.feed("b", 0, "a<=0");
    host.restart();
    host.feed("a", 0, "");
}

pub const FORGET_HELD_AT_RESTORE: Case = Case {
    history: a_hold_across_a_restart,
    right: "restart a0 b0",
    wrong: "restart a0",
};

pub const FORGET_HELD_CLOCKS_AT_RESTORE: Case = Case {
    history: a_hold_across_a_restart,
    right: "restart a0 b0",
    wrong: "restart b0 a0",
};

pub const FORGET_SEND_SEQUENCES_AT_RESTORE: Case = Case {
    history: |host| {
        host.open("a", "s");
        host.send("s");
        host.restart();
        host.send("s");
    },
    right: "s#0[] restart s#1[]",
    wrong: "s#0[] restart s#0[]",
};

pub const FORGET_PAST_AT_RESTORE: Case = Case {
    history: |host| {
        host.open("a", "s");
        host.feed("a", 0, "z<=4");
        host.restart();
        host.send("s");
    },
    right: "a0 restart s#0[a<=0 z<=4]",
    wrong: "a0 restart s#0[]",
};

pub const FORGET_DELIVERED_MARKS_AT_RESTORE: Case = Case {
    history: |host| {
        host.open("ab", "");
        host.feed_sent("a", 0, ("alice", 0), "");
        host.restart();
        host.feed("b", 0, "a/alice<=0");
    },
    right: "a0 restart b0",
    wrong: "a0 restart",
};
