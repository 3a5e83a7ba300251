//! What a violation looks like in the picture.

use std::collections::BTreeSet;

use super::reading::Reading;
use crate::trace::{At, Kind, Trace};

/// The events of a violation. Empty when the run had none, or none of its records is in the trace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Violation {
    /// Every event that belongs to it.
    pub(crate) events: BTreeSet<usize>,
    /// The real path, as runs of events that are one line each: from a send to the delivery at whoever sends the next record of
    /// the path, and on to that send. A run ends where the trace does not show how it goes on.
    pub(crate) chains: Vec<Vec<usize>>,
    /// The two records at the actor that has them the wrong way round: the send and the delivery of each, as far as there is one.
    pub(crate) pair: Vec<(usize, usize)>,
}

impl Violation {
    /// Finds the events of a trace's violation.
    pub(crate) fn of(trace: &Trace, reading: &Reading) -> Self {
        let mut all = Self::default();
        let Some(found) = &trace.violation else {
            return all;
        };
        let send = |at: At| {
            last(
                trace,
                |_, kind| matches!(kind, Kind::Sent { at: sent, .. } if *sent == at),
            )
        };
        for &at in &found.path {
            let Some(sent) = send(at) else { continue };
            let goes_on = all
                .chains
                .last_mut()
                .is_some_and(|chain| Self::go_on(trace, reading, chain, sent));
            if !goes_on {
                all.chains.push(vec![sent]);
            }
        }
        let column = reading.columns.index(found.actor);
        for at in [found.other, found.record].into_iter().flatten() {
            let delivered = last(trace, |i, kind| {
                found.actor.is_some()
                    && reading.column[i] == column
                    && matches!(kind, Kind::Delivered { at: delivered, .. } if *delivered == at)
            });
            match (send(at), delivered) {
                (Some(sent), Some(delivered)) if sent < delivered => {
                    all.pair.push((sent, delivered));
                }
                _ => {}
            }
            all.events.extend(send(at));
            all.events.extend(delivered);
        }
        all.events.extend(all.chains.iter().flatten());
        all
    }

    /// Continues a chain to a later send, if the trace shows that it was reached.
    fn go_on(trace: &Trace, reading: &Reading, chain: &mut Vec<usize>, sent: usize) -> bool {
        let Some(&from) = chain.last().filter(|&&from| from < sent) else {
            return false;
        };
        let Some(at) = super::reading::record(&trace.events[from].kind) else {
            return false;
        };
        if reading.column[from] != reading.column[sent] {
            let arrival = (from..sent).find(|&i| {
                reading.column[i] == reading.column[sent]
                    && matches!(&trace.events[i].kind, Kind::Delivered { at: delivered, .. } if *delivered == at)
            });
            let Some(arrival) = arrival else { return false };
            chain.push(arrival);
        }
        chain.push(sent);
        true
    }
}

fn last(trace: &Trace, is_it: impl Fn(usize, &Kind) -> bool) -> Option<usize> {
    trace
        .events
        .iter()
        .enumerate()
        .rev()
        .find(|(i, event)| is_it(*i, &event.kind))
        .map(|(i, _)| i)
}
