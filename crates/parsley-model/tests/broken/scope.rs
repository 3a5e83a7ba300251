//! Scope changes, truncation, and the guards of both.

use crate::Case;

pub const JOIN_WITHOUT_SEED: Case = Case {
    history: |host| {
        host.open("b", "");
        host.feed("b", 0, "a<=9");
        host.redeclare("ab", "");
        host.feed("a", 9, "");
    },
    right: "b0 redeclare a@10 -a9",
    wrong: "b0 redeclare a9",
};

pub const JOIN_WITHOUT_END: Case = Case {
    history: |host| {
        host.open("b", "");
        host.feed("b", 0, "a/alice<=0");
        host.ends(&[("a", 3)]);
        host.redeclare("ab", "");
        host.feed_sent("a", 0, ("alice", 0), "");
    },
    right: "b0 redeclare a@3 -a0",
    wrong: "b0 redeclare a0",
};

pub const FORGET_REMOVED_INPUT: Case = Case {
    history: |host| {
        host.open("ab", "s");
        host.feed("a", 0, "z<=4");
        host.redeclare("b", "s");
        host.send("s");
    },
    right: "a0 redeclare s#0[a<=0 z<=4]",
    wrong: "a0 redeclare s#0[]",
};

pub const FORGET_REMOVED_SINK: Case = Case {
    history: |host| {
        host.open("a", "st");
        host.send("s");
        host.ends(&[("s", 1)]);
        host.redeclare("a", "t");
        host.send("t");
    },
    right: "s#0[] redeclare t#0[s<=0]",
    wrong: "s#0[] redeclare t#0[]",
};

pub const DISCARD_HELD_OF_REMOVED_INPUT: Case = Case {
    history: |host| {
        host.open("ab", "");
        host.feed("b", 0, "a<=0");
        host.redeclare("a", "");
    },
    right: "redeclare refused vc-removed-input-held",
    wrong: "redeclare",
};

pub const TRUNCATE_ABOVE_BOUND: Case = Case {
    history: |host| {
        host.open("a", "s");
        host.feed("a", 0, "v<=9 w<=10 x<=11 y<=12");
        host.sweep(&[("v", 10), ("w", 10), ("x", 10), ("y", 10)]);
        host.send("s");
    },
    right: "a0 s#0[a<=0 w<=10 x<=11 y<=12]",
    wrong: "a0 s#0[a<=0 y<=12]",
};

pub const IGNORE_LOST_POSITIONS: Case = Case {
    history: |host| {
        host.open("a", "");
        host.feed("a", 0, "");
        host.log_start("a", 2);
    },
    right: "a0 refused vc-positions-lost",
    wrong: "a0",
};

pub const IGNORE_DELETED_HELD: Case = Case {
    history: |host| {
        host.open("abc", "");
        host.feed("a", 0, "c<=0");
        host.feed("b", 0, "a<=0");
        host.delete("a");
    },
    right: "refused vc-deleted-input-held",
    wrong: "b0",
};
