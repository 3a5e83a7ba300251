//! Which acts disturb a run, and when: four lanes at the same time, each one act after the other, drawn from the run's seed; or fixed rows of them.
//!
//! What a lane draws is the same for a seed; when it comes to act depends on how long the acts before it took, on brokers and on the machine.

use std::time::Duration;

use crate::act::{ANSWERS, Act};
use crate::chance::Chance;
use crate::instances::COUNT;

/// A lane: acts on one kind of things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Instances are killed, ended and stopped.
    Instances,
    /// Brokers are killed and ended, one at a time.
    Brokers,
    /// Connections are cut, answers dropped and delayed.
    Network,
    /// Records and topics are deleted.
    Log,
}

impl Lane {
    /// All lanes. A lane's place is the number of its stream.
    pub const ALL: [Self; 4] = [Self::Instances, Self::Brokers, Self::Network, Self::Log];

    /// How long nothing happens before the next act.
    pub fn pause(self, chance: &mut Chance) -> Duration {
        match self {
            Self::Instances => chance.time(3_000, 12_000),
            Self::Brokers => chance.time(15_000, 40_000),
            Self::Network => chance.time(2_000, 9_000),
            Self::Log => chance.time(4_000, 12_000),
        }
    }

    /// The next act.
    pub fn act(self, chance: &mut Chance) -> Act {
        let broker = 1 + chance.below(3) as u16;
        let number = chance.below(COUNT as u64) as usize;
        match self {
            Self::Instances => {
                let down = chance.time(0, 4_000);
                chance.weighted(&[
                    (40, Act::Kill(number, down)),
                    (5, Act::KillAll(down)),
                    (30, Act::End(number, down)),
                    (25, Act::Pause(number, down + Duration::from_secs(1))),
                ])
            }
            Self::Brokers => {
                let down = chance.time(1_000, 8_000);
                chance.weighted(&[
                    (1, Act::KillBroker(broker, down)),
                    (1, Act::EndBroker(broker, down)),
                ])
            }
            Self::Network => {
                let time = chance.time(500, 8_000);
                let api = chance.below(ANSWERS.len() as u64) as usize;
                let count = chance.between(1, 12);
                let delay = chance.time(200, 3_000);
                chance.weighted(&[
                    (15, Act::Cut(broker)),
                    (10, Act::Refuse(broker, time)),
                    (10, Act::Silence(broker, time)),
                    (40, Act::Drop(api, count)),
                    (25, Act::Delay(api, count, delay)),
                ])
            }
            Self::Log => {
                let topic = chance.below(2) as usize;
                chance.weighted(&[
                    (5, Act::Retain),
                    (3, Act::Recreate(topic)),
                    (2, Act::CutSpare(topic)),
                ])
            }
        }
    }
}

/// Every kind of act once, for a run that is short: rows that are gone through at the same time, as the lanes are.
pub fn rows() -> Vec<Vec<Act>> {
    let ms = Duration::from_millis;
    let apis = 0..ANSWERS.len();
    let mut network = vec![Act::Cut(1), Act::Refuse(2, ms(1500))];
    network.extend(apis.clone().map(|api| Act::Drop(api, 2)));
    network.push(Act::Silence(1, ms(1500)));
    network.extend(apis.map(|api| Act::Delay(api, 2, ms(500))));
    vec![
        vec![
            Act::Kill(0, ms(500)),
            Act::Pause(1, ms(1500)),
            Act::End(2, ms(500)),
            Act::KillAll(ms(500)),
        ],
        vec![Act::KillBroker(1, ms(1000)), Act::EndBroker(3, ms(1000))],
        network,
        vec![Act::Retain, Act::Recreate(0), Act::CutSpare(0), Act::Retain],
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_rows_have_every_kind_that_is_drawn_and_the_lanes_draw_all_of_them() {
        let rows: BTreeSet<&str> = rows().into_iter().flatten().map(Act::kind).collect();
        let mut drawn = BTreeSet::new();
        for (stream, lane) in (0..).zip(Lane::ALL) {
            let mut chance = Chance::of_stream(5, stream);
            for _ in 0..500 {
                assert!(lane.pause(&mut chance) > Duration::ZERO);
                drawn.insert(lane.act(&mut chance).kind());
            }
        }
        assert_eq!(rows, drawn);
    }
}
