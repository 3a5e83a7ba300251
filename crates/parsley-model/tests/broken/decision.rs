//! What moves `fed_up_to`, the decision, the order, watermark evidence.

use crate::{Case, Host};

pub const IGNORE_POSITIONS: Case = Case {
    history: |host| {
        host.open("ab", "");
        host.feed("a", 0, "");
        host.feed("b", 0, "a<=2");
        host.position("a", 3);
    },
    right: "a0 b0",
    wrong: "a0",
};

pub const LOSE_OFFSET_THREE: Case = Case {
    history: |host| {
        host.open("a", "");
        for offset in 2..5 {
            host.feed("a", offset, "");
        }
    },
    right: "a2 a3 a4",
    wrong: "a2 a4",
};

/// An effect that comes before its cause.
fn an_effect_first(host: &mut Host) {
    host.open("ab", "");
    host.feed("b", 0, "a<=0");
    host.feed("a", 0, "");
}

pub const EAGER: Case = Case {
    history: |host| {
        host.open("abc", "");
        host.feed("b", 0, "a<=0");
        host.feed("c", 0, "a/alice<=0");
        host.feed_sent("a", 0, ("alice", 0), "");
    },
    right: "a0 b0 c0",
    wrong: "b0 c0 a0",
};

pub const IGNORE_OFFSET_CLAIMS: Case = Case {
    history: an_effect_first,
    right: "a0 b0",
    wrong: "b0 a0",
};

pub const IGNORE_SEQUENCE_CLAIMS: Case = Case {
    history: |host| {
        host.open("abc", "");
        host.feed("b", 0, "a/alice<=0");
        host.feed("c", 0, "a<=0");
        host.feed_sent("a", 0, ("alice", 0), "");
    },
    right: "a0 b0 c0",
    wrong: "b0 a0 c0",
};

pub const FED_FOR_SETTLED: Case = Case {
    history: |host| {
        host.open("abc", "");
        host.feed("a", 0, "c<=0");
        host.feed("b", 0, "a<=0");
        host.feed("c", 0, "");
    },
    right: "c0 a0 b0",
    wrong: "b0 a0 c0",
};

pub const OFF_BY_ONE_SETTLED: Case = Case {
    history: |host| {
        host.open("ab", "");
        host.feed("a", 0, "");
        host.feed("b", 0, "a<=1");
        host.feed("a", 1, "");
    },
    right: "a0 a1 b0",
    wrong: "a0 b0 a1",
};

pub const UNDEFINED_SETTLED_AS_EVERYTHING: Case = Case {
    history: an_effect_first,
    right: "a0 b0",
    wrong: "b0 a0",
};

pub const RECEIVED_FOR_DELIVERED: Case = Case {
    history: |host| {
        host.open("abc", "");
        host.feed_sent("a", 0, ("alice", 0), "c<=0");
        host.feed("b", 0, "a/alice<=0");
        host.feed("c", 0, "");
    },
    right: "c0 a0 b0",
    wrong: "b0 c0 a0",
};

/// Bob's earlier send lies below where this node began to read.
pub const CLAIMS_ON_OWN_CHANNEL_BLOCK: Case = Case {
    history: |host| {
        host.open("a", "");
        host.feed_sent("a", 5, ("bob", 3), "a/bob<=2");
    },
    right: "a5",
    wrong: "",
};

pub const UNRECEIVED_CHANNELS_BLOCK: Case = Case {
    history: |host| {
        host.open("a", "");
        host.feed("a", 0, "z<=0");
    },
    right: "a0",
    wrong: "",
};

pub const DELETED_CHANNELS_BLOCK: Case = Case {
    history: |host| {
        host.open("ab", "");
        host.feed("a", 3, "");
        host.feed("b", 0, "a<=4");
        host.delete("a");
    },
    right: "a3 b0",
    wrong: "a3",
};

pub const BREAK_FIFO: Case = Case {
    history: |host| {
        host.open("ab", "");
        host.feed("b", 0, "a<=0");
        host.feed("b", 1, "");
        host.feed("a", 0, "");
    },
    right: "a0 b0 b1",
    wrong: "b1 a0 b0",
};

pub const CORRUPT_CLOCK_AS_EMPTY: Case = Case {
    history: |host| {
        host.open("a", "");
        host.feed_corrupt("a", 0);
    },
    right: "refused vc-corrupt-clock",
    wrong: "a0",
};

/// What `b0` names lies below where this node began to read, and `a5` waits for `b0`.
pub const SETTLED_FOR_FED_IN_EVIDENCE: Case = Case {
    history: |host| {
        host.open("ab", "");
        host.feed("a", 5, "b<=0");
        host.feed("b", 0, "a/alice<=0");
        host.mark();
        host.watermark("a", 6);
    },
    right: "b0 a5",
    wrong: "",
};

pub const EVIDENCE_WITHOUT_MARK: Case = Case {
    history: |host| {
        host.open("abc", "");
        host.feed("a", 9, "");
        host.feed("b", 0, "a/alice<=3");
        host.mark();
        host.feed("c", 0, "a/alice<=4");
        host.watermark("a", 10);
        host.feed_sent("a", 10, ("alice", 4), "");
    },
    right: "a9 b0 a10 c0",
    wrong: "a9 b0 c0 a10",
};

pub const EVIDENCE_DESPITE_HELD: Case = Case {
    history: |host| {
        host.open("abc", "");
        host.feed_sent("a", 0, ("alice", 0), "c<=0");
        host.feed("b", 0, "a/alice<=0");
        host.mark();
        host.watermark("a", 1);
        host.feed("c", 0, "");
    },
    right: "c0 a0 b0",
    wrong: "b0 c0 a0",
};

pub const EVIDENCE_ONE_EARLY: Case = Case {
    history: |host| {
        host.open("ab", "");
        host.feed("a", 8, "");
        host.feed("b", 0, "a/alice<=3");
        host.mark();
        host.watermark("a", 10);
        host.feed_sent("a", 9, ("alice", 3), "");
    },
    right: "a8 a9 b0",
    wrong: "a8 b0 a9",
};
