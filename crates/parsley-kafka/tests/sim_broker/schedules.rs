//! The schedules, as data.

use Step::{Abort, Begin, Commit, Cut, In, Plain, Recreate};

/// One step of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Records outside of any transaction: partition, values.
    Plain(i32, &'static [&'static str]),
    /// A producer begins a transaction.
    Begin(&'static str),
    /// Records of a producer's transaction: producer, partition, values. The first ones begin it.
    In(&'static str, i32, &'static [&'static str]),
    /// A producer commits.
    Commit(&'static str),
    /// A producer aborts.
    Abort(&'static str),
    /// Everything below an offset is removed: partition, offset.
    Cut(i32, i64),
    /// The topic is deleted, and created again with this many partitions.
    Recreate(i32),
}

pub struct Schedule {
    pub name: &'static str,
    pub partitions: i32,
    pub steps: &'static [Step],
}

/// Makes a test of each schedule, and the table of all.
macro_rules! schedules {
    ($($name:ident, $partitions:literal: [$($step:expr),* $(,)?];)*) => {
        pub const SCHEDULES: &[Schedule] = &[$(
            Schedule {
                name: stringify!($name),
                partitions: $partitions,
                steps: &[$($step),*],
            },
        )*];

        $(
            #[test]
            fn $name() {
                let schedule = SCHEDULES.iter().find(|schedule| schedule.name == stringify!($name));
                super::compare(schedule.expect("it is in the table"));
            }
        )*
    };
}

schedules! {
    b27_plain_records, 2: [
        Plain(0, &["a", "b"]),
        Plain(1, &["c"]),
        Plain(0, &["d"]),
    ];
    b27_a_commit_and_its_marker, 2: [
        In("A", 0, &["a", "b"]),
        Commit("A"),
    ];
    b27_nothing_but_an_abort, 2: [
        In("A", 0, &["x", "y"]),
        Abort("A"),
    ];
    b27_aborted_between_committed, 2: [
        In("A", 0, &["a", "b"]),
        Commit("A"),
        In("A", 0, &["x", "y", "z"]),
        Abort("A"),
        In("A", 0, &["c"]),
        Commit("A"),
    ];
    b27_aborted_at_the_head, 2: [
        In("A", 0, &["x"]),
        Abort("A"),
        In("B", 0, &["y", "z"]),
        Abort("B"),
        Plain(0, &["a"]),
        In("A", 0, &["b"]),
        Commit("A"),
    ];
    b27_aborts_behind_the_last_record, 2: [
        In("A", 0, &["a"]),
        Commit("A"),
        In("A", 0, &["x", "y"]),
        Abort("A"),
        In("B", 0, &["z"]),
        Abort("B"),
    ];
    b27_one_commit_over_three_partitions, 3: [
        In("A", 0, &["a"]),
        In("A", 2, &["b", "c"]),
        In("A", 1, &["d"]),
        In("A", 0, &["e"]),
        Commit("A"),
        Plain(1, &["f"]),
    ];
    b27_one_abort_over_three_partitions, 3: [
        Plain(2, &["a"]),
        In("A", 2, &["x"]),
        In("A", 1, &["y"]),
        In("A", 0, &["z"]),
        Abort("A"),
        Plain(0, &["b"]),
    ];
    b27_two_transactions_in_turns_ended_as_begun, 2: [
        In("A", 0, &["a"]),
        In("B", 0, &["b"]),
        In("A", 0, &["c"]),
        In("B", 0, &["d"]),
        Commit("A"),
        In("B", 0, &["e"]),
        Commit("B"),
    ];
    b27_two_transactions_in_turns_the_later_ends_first, 2: [
        In("A", 0, &["x"]),
        In("B", 0, &["b"]),
        In("A", 0, &["y"]),
        Commit("B"),
        In("B", 0, &["c"]),
        Commit("B"),
        Abort("A"),
        In("B", 0, &["d"]),
        Commit("B"),
    ];
    b27_plain_records_behind_an_open_transaction, 2: [
        Plain(0, &["a"]),
        In("A", 0, &["b"]),
        Plain(0, &["c", "d"]),
        Plain(1, &["e"]),
        Commit("A"),
        Plain(0, &["f"]),
    ];
    b27_a_transaction_that_stays_open, 2: [
        Plain(0, &["a"]),
        In("B", 0, &["x"]),
        Abort("B"),
        In("A", 0, &["open"]),
        In("B", 0, &["b"]),
        In("B", 1, &["c"]),
        Commit("B"),
        Plain(0, &["d"]),
    ];
    b27_two_transactions_that_cross, 3: [
        In("A", 0, &["x"]),
        In("B", 1, &["b"]),
        In("A", 1, &["y"]),
        In("B", 0, &["c"]),
        In("C", 1, &["d"]),
        In("C", 2, &["e"]),
        Commit("B"),
        Abort("A"),
        Commit("C"),
    ];
    b27_three_transactions_around_an_abort, 2: [
        In("A", 0, &["a"]),
        In("B", 0, &["x", "y"]),
        In("C", 0, &["c"]),
        Commit("C"),
        In("C", 0, &["z"]),
        Abort("C"),
        Commit("A"),
        Abort("B"),
    ];
    b27_transactions_that_write_nothing, 2: [
        Begin("A"),
        Commit("A"),
        In("A", 0, &["a"]),
        Begin("B"),
        Abort("B"),
        Commit("A"),
        Begin("A"),
        Abort("A"),
        Plain(0, &["b"]),
    ];
    b27_a_cut_through_committed_records, 2: [
        In("A", 0, &["a", "b"]),
        Commit("A"),
        In("A", 0, &["c", "d"]),
        Commit("A"),
        Cut(0, 1),
        Cut(0, 3),
        Cut(0, 2),
        Cut(0, 4),
        Plain(0, &["e"]),
    ];
    b27_a_cut_of_everything, 2: [
        In("A", 0, &["a"]),
        In("A", 1, &["b"]),
        Commit("A"),
        In("A", 0, &["x"]),
        Abort("A"),
        Cut(0, 4),
        Cut(1, 2),
        Cut(1, 3),
        In("A", 1, &["c"]),
        Commit("A"),
    ];
    b27_a_cut_up_to_an_open_transaction, 2: [
        Plain(0, &["a", "b"]),
        In("A", 0, &["c"]),
        Plain(0, &["d"]),
        Cut(0, 2),
        Commit("A"),
        Cut(0, 3),
        In("B", 0, &["x"]),
        Abort("B"),
        Cut(0, 6),
    ];
    b27_a_cut_through_an_aborted_run, 2: [
        Plain(0, &["a"]),
        In("A", 0, &["x", "y", "z"]),
        Abort("A"),
        Plain(0, &["b"]),
        Cut(0, 3),
        In("A", 0, &["v"]),
        Abort("A"),
        Cut(0, 4),
        Cut(0, 9),
    ];
    b27_a_topic_created_again_and_again, 2: [
        Plain(0, &["a", "b"]),
        In("A", 1, &["c"]),
        Commit("A"),
        Cut(0, 1),
        Recreate(3),
        In("A", 1, &["d"]),
        Plain(2, &["e"]),
        In("A", 0, &["f"]),
        Commit("A"),
        Recreate(2),
        In("B", 0, &["x"]),
        Abort("B"),
        Plain(1, &["g"]),
    ];
    b27_a_topic_created_again_before_a_commit, 2: [
        Plain(0, &["a"]),
        In("A", 0, &["lost"]),
        In("A", 1, &["lost as well"]),
        Recreate(2),
        Plain(0, &["b"]),
        In("A", 1, &["c"]),
        Plain(1, &["d"]),
        Commit("A"),
        Plain(0, &["e"]),
    ];
    b27_a_topic_created_again_before_an_abort, 3: [
        In("A", 0, &["lost"]),
        In("A", 2, &["lost as well"]),
        Recreate(2),
        In("B", 0, &["b"]),
        Abort("A"),
        Plain(0, &["c"]),
        Commit("B"),
    ];
}
