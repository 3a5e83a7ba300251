//! The rows of the table: which work, what the Java original took for it, and what is aimed at.

/// A row of the table.
#[derive(Debug)]
pub struct Row {
    /// The work, as the page names it.
    pub work: &'static str,
    /// The benchmark: criterion's group, function and parameter.
    pub figure: &'static str,
    /// How long the Java original takes.
    pub original_ns: Option<f64>,
    pub goal: Goal,
    pub unit: Unit,
}

/// What is aimed at.
#[derive(Clone, Copy, Debug)]
pub enum Goal {
    None,
    /// So many times faster than the original.
    Faster(f64),
    /// No more than so many times what another row takes.
    Near {
        figure: &'static str,
        factor: f64,
    },
}

/// How a figure is written.
#[derive(Clone, Copy, Debug)]
pub enum Unit {
    Nanoseconds,
    Milliseconds,
    PerSecond,
}

/// Work without an original and without a goal.
const fn row(work: &'static str, figure: &'static str) -> Row {
    Row {
        work,
        figure,
        original_ns: None,
        goal: Goal::None,
        unit: Unit::Nanoseconds,
    }
}

impl Row {
    const fn original(mut self, ns: f64) -> Self {
        self.original_ns = Some(ns);
        self
    }

    const fn faster(mut self, times: f64) -> Self {
        self.goal = Goal::Faster(times);
        self
    }

    const fn near(mut self, figure: &'static str, factor: f64) -> Self {
        self.goal = Goal::Near { figure, factor };
        self
    }

    const fn unit(mut self, unit: Unit) -> Self {
        self.unit = unit;
        self
    }
}

/// All rows in their order. The original's dominance is the decision here; the comparison of two clocks stands beside it.
pub const ROWS: &[Row] = &[
    row("decode, 1 claim", "clock/decode/1").original(24.0),
    row("decode, 4 claims", "clock/decode/4").original(55.0),
    row("decode, 16 claims", "clock/decode/16").original(292.0),
    row("decode, 64 claims", "clock/decode/64")
        .original(1551.0)
        .faster(8.0),
    row("decode, 256 claims", "clock/decode/256").original(8087.0),
    row("decode, 1,024 claims", "clock/decode/1024").original(39_700.0),
    row("decide, 1 claim", "clock/decide/1").original(6.5),
    row("decide, 4 claims", "clock/decide/4").original(25.0),
    row("decide, 16 claims", "clock/decide/16").original(129.0),
    row("decide, 64 claims", "clock/decide/64")
        .original(709.0)
        .faster(8.0),
    row("decide, 256 claims", "clock/decide/256").original(3914.0),
    row("decide, 1,024 claims", "clock/decide/1024").original(19_554.0),
    row("dominates, 1 claim", "clock/dominates/1").original(6.5),
    row("dominates, 4 claims", "clock/dominates/4").original(25.0),
    row("dominates, 16 claims", "clock/dominates/16").original(129.0),
    row("dominates, 64 claims", "clock/dominates/64")
        .original(709.0)
        .faster(8.0),
    row("dominates, 256 claims", "clock/dominates/256").original(3914.0),
    row("dominates, 1,024 claims", "clock/dominates/1024").original(19_554.0),
    row("merge, 1 claim", "clock/merge/1").original(9.7),
    row("merge, 4 claims", "clock/merge/4").original(40.0),
    row("merge, 16 claims", "clock/merge/16").original(171.0),
    row("merge, 64 claims", "clock/merge/64")
        .original(849.0)
        .faster(8.0),
    row("merge, 256 claims", "clock/merge/256").original(4299.0),
    row("merge, 1,024 claims", "clock/merge/1024").original(20_603.0),
    row("encode, 1 claim", "clock/encode/1").original(13.0),
    row("encode, 4 claims", "clock/encode/4").original(28.0),
    row("encode, 16 claims", "clock/encode/16").original(84.0),
    row("encode, 64 claims", "clock/encode/64").original(313.0),
    row("encode, 256 claims", "clock/encode/256").original(1636.0),
    row("encode, 1,024 claims", "clock/encode/1024").original(5899.0),
    row("receive and deliver, no headers", "stream/deliver/0").original(640.0),
    row("receive and deliver, 1 claim", "stream/deliver/1"),
    row("receive and deliver, 4 claims", "stream/deliver/4").original(890.0),
    row("receive and deliver, 64 claims", "stream/deliver/64").original(3600.0),
    row("receive and deliver, 1,024 claims", "stream/deliver/1024").original(55_200.0),
    row(
        "receive, deliver, stamp, 1 claim",
        "stream/deliver and stamp/1",
    ),
    row(
        "receive, deliver, stamp, 4 claims",
        "stream/deliver and stamp/4",
    )
    .original(1310.0)
    .faster(6.0),
    row(
        "receive, deliver, stamp, 64 claims",
        "stream/deliver and stamp/64",
    ),
    row("one record beside 1 idle channel", "stream/idle/1").original(610.0),
    row("one record beside 16 idle channels", "stream/idle/16").original(1400.0),
    row("one record beside 64 idle channels", "stream/idle/64").original(3700.0),
    row("one record beside 256 idle channels", "stream/idle/256").original(13_700.0),
    row("one record beside 1,024 idle channels", "stream/idle/1024")
        .original(55_700.0)
        .near("stream/idle/1", 1.3),
    row("chain of 16 released", "release/chain/16"),
    row("chain of 256 released", "release/chain/256"),
    row("chain of 1,024 released", "release/chain/1024").near("release/chain/16", 1.3),
    row(
        "chain of 16 released and committed",
        "release/chain committed/16",
    )
    .original(827.0),
    row(
        "chain of 256 released and committed",
        "release/chain committed/256",
    )
    .original(10_010.0),
    row(
        "chain of 1,024 released and committed",
        "release/chain committed/1024",
    )
    .original(42_181.0),
    row(
        "1,000 heads released by one claim",
        "release/same claim/1000",
    ),
    row(
        "10,000 heads released by one claim",
        "release/same claim/10000",
    ),
    row("hold, 200 records", "release/hold/200").original(1867.0),
    row("hold, 10,000 records", "release/hold/10000"),
    row("release, 200 records", "release/release/200").original(869.0),
    row("release, 10,000 records", "release/release/10000"),
    row(
        "stamp after a delivery, 16 × 16",
        "stamp/after a delivery/16",
    )
    .original(3800.0),
    row(
        "stamp after a delivery, 64 × 64",
        "stamp/after a delivery/64",
    )
    .original(77_000.0),
    row(
        "stamp after a delivery, 256 × 256",
        "stamp/after a delivery/256",
    )
    .original(1_588_000.0)
    .faster(500.0),
    row("stamp again, 16 × 16", "stamp/again/16").original(3800.0),
    row("stamp again, 64 × 64", "stamp/again/64").original(77_000.0),
    row("stamp again, 256 × 256", "stamp/again/256").original(1_588_000.0),
    row("deliver and stamp, 16 × 16", "stamp/with its delivery/16").original(3800.0),
    row("deliver and stamp, 64 × 64", "stamp/with its delivery/64").original(77_000.0),
    row(
        "deliver and stamp, 256 × 256",
        "stamp/with its delivery/256",
    )
    .original(1_588_000.0)
    .faster(500.0),
    row(
        "restore of 100,000 held records",
        "restore/held records/100000",
    )
    .original(49e6)
    .faster(4.0)
    .unit(Unit::Milliseconds),
    row("task, 4 claims", "task/step/silent"),
    row("task, 4 claims, with metrics and status", "task/step/told").near("task/step/silent", 1.05),
    row("embedded, in memory", "embedded/two stages/in memory").unit(Unit::PerSecond),
    row("embedded, durable", "embedded/two stages/durable").unit(Unit::PerSecond),
];
