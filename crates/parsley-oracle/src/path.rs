//! How one record came to be in the past of another.

use std::collections::VecDeque;

use crate::record::Fate;
use crate::set::EmissionSet;
use crate::{Emission, Oracle};

impl Oracle {
    /// A shortest way by which `from` came to be in the past of `to`, both included. In each hop the first record was handed to the one who then sent
    /// the second, or both were sent by one actor, the second as a consequence of the first. Of several
    /// shortest ways, the one by what happened latest to each sender, from `to` backwards. `None` if `from` is not in the past of `to`, or
    /// the step of `to` was aborted: what never was has no history.
    pub fn path(&self, from: Emission, to: Emission) -> Option<Vec<Emission>> {
        let real = self.records[to.index()].fate != Fate::Aborted && self.happened_before(from, to);
        real.then(|| self.path_from(from, std::iter::once(to)))
    }

    /// A shortest path from `from` to any of those records of `to` that have it in their past.
    pub(crate) fn path_from(
        &self,
        from: Emission,
        to: impl Iterator<Item = Emission>,
    ) -> Vec<Emission> {
        let leads_there =
            |emission: Emission| emission == from || self.happened_before(from, emission);
        self.search(to, leads_there, |emission| emission == from)
    }

    /// A shortest path to `to` from any record of its past that is a `goal`.
    pub(crate) fn path_to(&self, to: Emission, goal: impl Fn(Emission) -> bool) -> Vec<Emission> {
        self.search(std::iter::once(to), |_| true, goal)
    }

    /// Goes back from `ends`, over records that are `worth` it, until it comes to a `goal`; breadth first. An end is no goal.
    fn search(
        &self,
        ends: impl Iterator<Item = Emission>,
        worth: impl Fn(Emission) -> bool,
        goal: impl Fn(Emission) -> bool,
    ) -> Vec<Emission> {
        let mut seen = EmissionSet::default();
        // What each visited record leads to: a link to the entry before it on the way.
        let mut visited: Vec<(Emission, Option<usize>)> = Vec::new();
        let mut queue = VecDeque::new();
        for end in ends {
            seen.insert(end);
            queue.push_back(visited.len());
            visited.push((end, None));
        }
        while let Some(at) = queue.pop_front() {
            for cause in self.direct_causes(visited[at].0) {
                if seen.contains(cause) || !worth(cause) {
                    continue;
                }
                seen.insert(cause);
                visited.push((cause, Some(at)));
                if goal(cause) {
                    return way(&visited);
                }
                queue.push_back(visited.len() - 1);
            }
        }
        Vec::new()
    }

    /// What its creator was handed before it, and what its creator sent before it as a cause of it; latest first.
    fn direct_causes(&self, emission: Emission) -> impl Iterator<Item = Emission> + '_ {
        let record = &self.records[emission.index()];
        let creator = &self.actors[record.creator.index()];
        let handed = creator.inputs[..record.inputs_before].iter().rev();
        let sent = creator.sends[..record.sends_before].iter().rev();
        let sent = sent.filter(|earlier| {
            creator
                .order
                .relates(&self.records[earlier.index()], record)
        });
        handed.chain(sent).copied()
    }
}

/// The way from the record visited last to the end that it leads to.
fn way(visited: &[(Emission, Option<usize>)]) -> Vec<Emission> {
    let mut path = Vec::new();
    let mut next = visited.len().checked_sub(1);
    while let Some(at) = next {
        path.push(visited[at].0);
        next = visited[at].1;
    }
    path
}
