//! What the guards refuse while an execution runs.

use crate::equivalence::generate::Generator;
use crate::equivalence::ops::Op;
use crate::equivalence::world::NODE;
use crate::model::{Channel, Clock, Fetched, named, topic_of};

impl Generator {
    /// Does what a guard refuses, in one of its forms. Whether the execution goes on all the same.
    pub fn violate(&mut self) -> bool {
        let inputs: Vec<Channel> = self.inputs.iter().copied().collect();
        let on = self.chance.pick(&inputs).expect("an input");
        let next = self.reading[&on];
        let header = |name: &str, value: &[u8]| (name.to_owned(), Some(value.to_vec()));
        let sender = [7; 16];
        let outside: Vec<Channel> = self
            .world
            .channels()
            .into_iter()
            .filter(|on| !self.inputs.contains(on))
            .collect();
        let headers = match self.chance.below(13) {
            0 => vec![("vc".to_owned(), None)],
            1 => vec![header("vc", &self.corrupt_clock())],
            2 => vec![header("vc", &vec![0; self.budget])],
            3 => vec![header("vc", &vec![0; self.budget + 1])],
            4 => vec![header("vc-sender", &sender)],
            5 => vec![header("vc-sender", &sender[1..]), header("vc-seq", &[0; 8])],
            6 => vec![header("vc-sender", &sender), header("vc-seq", &[255; 8])],
            7 => vec![
                header("vc", &[1, 0, 0, 0, 0, 0, 0, 0, 0]),
                header("vc", &[]),
            ],
            8 => {
                let Some(outside) = self.chance.pick(&outside) else {
                    return true;
                };
                let refused = if self.chance.percent(50) {
                    let fetched = Fetched {
                        offset: self.chance.between(0, 9),
                        ..Fetched::default()
                    };
                    self.apply_feed(outside, fetched).is_err()
                } else {
                    self.ops.push(Op::Position {
                        on: outside,
                        next: 3,
                    });
                    self.model.position(outside, 3).is_err()
                };
                assert!(refused, "input on a channel outside the declaration");
                return self.lost();
            }
            9 | 10 => {
                let offset = (next - self.chance.between(1, 3)).max(0);
                let fetched = Fetched {
                    offset,
                    ..Fetched::default()
                };
                return if self.apply_feed(on, fetched).is_err() {
                    self.lost()
                } else {
                    self.end_of_step()
                };
            }
            11 => {
                let sinks = &self.model.execution().sinks;
                let undeclared = self
                    .world
                    .channels()
                    .into_iter()
                    .filter(|on| !sinks.contains_key(&topic_of(*on)));
                let Some(to) = self.chance.pick(&undeclared.collect::<Vec<_>>()) else {
                    return true;
                };
                self.ops.push(Op::Send { to });
                assert!(
                    self.model.send(to).is_err(),
                    "a send to a sink that is not declared"
                );
                return self.lost();
            }
            _ => {
                let me = named(NODE);
                let echo = [me.0.to_be_bytes(), me.1.to_be_bytes()].concat();
                vec![header("vc-sender", &echo)]
            }
        };
        let fetched = Fetched {
            offset: next,
            headers,
            ..Fetched::default()
        };
        self.reading.insert(on, next + 1);
        if self.apply_feed(on, fetched).is_err() {
            self.lost()
        } else {
            self.end_of_step()
        }
    }

    fn corrupt_clock(&mut self) -> Vec<u8> {
        let mut clock = Clock::default();
        for on in self.world.channels() {
            clock.claim_offset(on, 1);
        }
        let mut bytes = clock.encode();
        let first = bytes[5..33].to_vec();
        match self.chance.below(5) {
            0 => bytes[0] = 2,
            1 => bytes.push(0),
            2 => bytes.truncate(self.chance.below(bytes.len())),
            3 => bytes[33..61].copy_from_slice(&first),
            _ => bytes[25] = 0x80,
        }
        bytes
    }
}
