//! Floors and turns of a script that many scenarios share.

use crate::chance::Chance;
use crate::plan::Phase;
use crate::scenario::Floor;

/// Something waited.
pub(super) const HELD: Floor = Floor::new("a record was held", |counts| counts.holds > 0);

/// Something waited, on every seed: the script feeds the effect before the cause.
pub(super) const ALWAYS_HELD: Floor =
    Floor::on("a record was held", 100, |counts| counts.holds > 0);

/// Something waited when a step ended, on every seed, whether or not it could go in the end.
pub(super) const ALWAYS_HOLDING: Floor =
    Floor::on("a step ended with a record held", 100, |counts| {
        counts.steps_holding > 0
    });

/// A crash.
pub(super) const CRASHED: Floor = Floor::new("a crash", |counts| counts.crashes > 0);

/// A crash within a step.
pub(super) const CRASHED_MID_STEP: Floor = Floor::new("a crash within a step", |counts| {
    counts.crashes_mid_step > 0
});

/// A crash of a task that holds.
pub(super) const CRASHED_HOLDING: Floor = Floor::new("a crash of a task that holds", |counts| {
    counts.crashes_holding > 0
});

/// Held records came back.
pub(super) const RESTORED_HOLDS: Floor = Floor::new("held records restored", |counts| {
    counts.restores_with_holds > 0
});

/// A position passed something that no record came for.
pub(super) const ADVANCED: Floor =
    Floor::new("positions advanced", |counts| counts.position_advances > 0);

/// A step sent to several partitions.
pub(super) const LATER_ROUNDS: Floor = Floor::new("a step had several rounds", |counts| {
    counts.later_rounds > 0
});

/// A stamp named a send by its sequence. At most every second seed can have it: in the others acknowledgements tell offsets.
pub(super) const BY_SEQUENCE: Floor = Floor::new("a stamp claimed by sequence", |counts| {
    counts.stamps_by_sequence > 0
});

/// The same where the plan has acknowledgements never tell an offset.
pub(super) const ALWAYS_BY_SEQUENCE: Floor =
    Floor::on("a stamp claimed by sequence", 100, |counts| {
        counts.stamps_by_sequence > 0
    });

/// The stage stands still for a while, and then has a choice of what to read first; so many times in a row.
pub(super) fn pauses(chance: &mut Chance, stage: &'static str, times: u32) -> Vec<Phase> {
    let mut script = Vec::new();
    for _ in 0..times {
        script.extend([
            Phase::Stop(stage),
            Phase::Random(chance.between(12, 24) as u32),
            Phase::Start(stage),
            Phase::Random(chance.between(3, 9) as u32),
        ]);
    }
    script
}

/// A guard stopped a task, as the plan expects.
pub(super) const ALWAYS_REFUSED: Floor = Floor::on("a refusal", 100, |counts| counts.refusals > 0);

/// Retention took something.
pub(super) const ALWAYS_SWEPT: Floor = Floor::on("retention moved a log start", 100, |counts| {
    counts.sweeps > 0
});

/// A topic went away.
pub(super) const ALWAYS_DELETED: Floor =
    Floor::on("a topic was deleted", 100, |counts| counts.deletions > 0);

/// Another topic came under the name of one that went away.
pub(super) const ALWAYS_RECREATED: Floor = Floor::on("a topic was created again", 100, |counts| {
    counts.recreations > 0
});

/// The script deploys on every seed.
pub(super) const ALWAYS_DEPLOYED: Floor =
    Floor::on("a deployment", 100, |counts| counts.deployments > 0);

/// A channel joined that the delivered past names.
pub(super) const ALWAYS_SEEDED: Floor = Floor::on(
    "a channel joined behind what was delivered",
    100,
    |counts| counts.joins_seeded > 0,
);

/// A question about watermarks was answered.
pub(super) const ALWAYS_ANSWERED: Floor = Floor::on("watermarks were handed in", 100, |counts| {
    counts.evidence > 0
});

/// A topic's claims went from a task's stamps.
pub(super) const ALWAYS_TRUNCATED: Floor =
    Floor::on("claims were dropped", 100, |counts| counts.truncated > 0);
