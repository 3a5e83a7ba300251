//! Initialisation: restore, scope changes in their order, start positions, the first check, the own reading.

use std::collections::{BTreeMap, BTreeSet};

use crate::broken::Broken;
use crate::clock::Clock;
use crate::execution::{Execution, State};
use crate::facts::{OpenLine, Opened};
use crate::id::{Channel, Topic, channel, named, topic_of};
use crate::refused::{MISSING_END, Refused};

pub(crate) fn initialise(
    state: State,
    line: &OpenLine,
    broken: Option<Broken>,
) -> Result<(Execution, Opened), Refused> {
    let recorded = state.scope.clone();
    if recorded.is_none() && line.group_has_positions {
        return Err(Refused::bare("vc-state-lost"));
    }
    let mut execution = restore(state, line, broken);
    let mut opened = Opened::default();
    if let Some((inputs, sinks)) = &recorded {
        for &on in inputs.difference(&line.inputs) {
            remove_input(&mut execution, on)?;
        }
        for &on in line.inputs.difference(inputs) {
            let resume = add_input(&mut execution, line, on)?;
            opened.resume.extend(resume.map(|resume| (on, resume)));
            opened
                .joined
                .insert(on, execution.delivered.get(&on).copied());
        }
        for topic in sinks
            .iter()
            .filter(|topic| !line.sinks.contains_key(topic) && !line.deleted.contains(topic))
        {
            if line.unresolved.contains(topic) {
                return Err(missing_sink(*topic));
            }
            if execution.breaks(Broken::ForgetRemovedSink) {
                continue;
            }
            for (&on, &end) in line.ends.iter().filter(|(on, _)| topic_of(**on) == *topic) {
                execution.state.carried.claim_offset(on, end - 1);
            }
        }
    }
    if let Some(&missing) = line
        .sinks
        .keys()
        .find(|topic| line.unresolved.contains(topic) || line.deleted.contains(topic))
    {
        return Err(missing_sink(missing));
    }
    start(&mut execution, line, recorded.is_some(), &opened)?;
    let judged: BTreeMap<Channel, i64> = line
        .log_starts
        .iter()
        .map(|(&on, &at)| (on, at))
        .filter(|(on, _)| !opened.joined.contains_key(on))
        .collect();
    resume_is_retained(&execution, &judged, line)?;
    execution.check(&judged, &line.deleted)?;
    for on in execution.sink_channels() {
        if let Some(&end) = line.ends.get(&on).filter(|&&end| end > 0) {
            execution.raise_own(on, end - 1, execution.state.sent.get(&on).copied());
        }
    }
    execution.state.scope = Some((line.inputs.clone(), line.sinks.keys().copied().collect()));
    Ok((execution, opened))
}

fn missing_sink(topic: Topic) -> Refused {
    Refused::on("vc-missing-sink", channel(topic, 0))
}

/// What a broken protocol forgets between two executions.
fn forget(state: &mut State, broken: Broken) {
    match broken {
        Broken::ForgetHeldAtRestore => {
            for (on, queue) in std::mem::take(&mut state.held) {
                if let Some(last) = queue.last() {
                    state.frontiers.insert(on, last.record.offset);
                }
            }
            for (head, tail) in state.indices.values_mut() {
                *head = *tail;
            }
        }
        Broken::ForgetHeldClocksAtRestore => {
            for held in state.held.values_mut().flatten() {
                held.record.clock = Clock::default();
            }
        }
        Broken::ForgetSendSequencesAtRestore => state.sent.clear(),
        Broken::ForgetDeliveredMarksAtRestore => state.marks.clear(),
        Broken::ForgetPastAtRestore => {
            state.advertised.clear();
            state.carried = Clock::default();
        }
        _ => {}
    }
}

fn restore(mut state: State, line: &OpenLine, broken: Option<Broken>) -> Execution {
    if let Some(broken) = broken {
        forget(&mut state, broken);
    }
    let mut fed: BTreeMap<Channel, i64> = state.frontiers.clone();
    for (&on, queue) in &state.held {
        if let Some(last) = queue.last() {
            let known = fed.entry(on).or_insert(last.record.offset);
            *known = (*known).max(last.record.offset);
        }
    }
    Execution {
        me: named(&line.name),
        inputs: line.inputs.clone(),
        sinks: line.sinks.clone(),
        delivered: match broken {
            Some(Broken::ForgetPastAtRestore) => BTreeMap::new(),
            _ => state.frontiers.clone(),
        },
        state,
        fed,
        resume: BTreeMap::new(),
        gone: BTreeSet::new(),
        swept: BTreeSet::new(),
        last_fed: BTreeMap::new(),
        advanced: BTreeMap::new(),
        arrivals: 0,
        evidence: BTreeMap::new(),
        own_offsets: BTreeMap::new(),
        own_vouched: BTreeMap::new(),
        own_claims: BTreeMap::new(),
        unfenced: BTreeSet::new(),
        sent_in_step: BTreeSet::new(),
        cursor: None,
        broken,
    }
}

/// The input's past moves into custody and its keys go.
fn remove_input(execution: &mut Execution, on: Channel) -> Result<(), Refused> {
    if let Some(head) = execution.held(on).first()
        && !execution.breaks(Broken::DiscardHeldOfRemovedInput)
    {
        return Err(Refused::at("vc-removed-input-held", on, head.record.offset));
    }
    let carries = !execution.breaks(Broken::ForgetRemovedInput);
    let state = &mut execution.state;
    let marks = state.marks.clone();
    for clock in state.advertised.values_mut().chain([&mut state.carried]) {
        for ((claimed_on, sender), sequence) in std::mem::take(&mut clock.sequences) {
            match marks.get(&(claimed_on, sender)) {
                Some(&(delivered, offset)) if claimed_on == on && sequence <= delivered => {
                    clock.claim_offset(on, offset);
                }
                _ => clock.claim_sequence(claimed_on, sender, sequence),
            }
        }
    }
    if let Some(frontier) = state.frontiers.remove(&on)
        && carries
    {
        state.carried.claim_offset(on, frontier);
    }
    if let Some(advertised) = state.advertised.remove(&on)
        && carries
    {
        state.carried.merge(&advertised);
    }
    state.held.remove(&on);
    state.indices.remove(&on);
    state.marks.retain(|&(marked_on, _), _| marked_on != on);
    execution.fed.remove(&on);
    execution.delivered.remove(&on);
    Ok(())
}

/// Seeds a joining channel from the delivered past; answers where to read it from when there is a seed.
fn add_input(
    execution: &mut Execution,
    line: &OpenLine,
    on: Channel,
) -> Result<Option<i64>, Refused> {
    if line.deleted.contains(&topic_of(on)) || execution.breaks(Broken::JoinWithoutSeed) {
        return Ok(None);
    }
    let mut past: Clock = execution.delivered_past();
    past.sequences
        .retain(|&(claimed_on, _), _| claimed_on == on);
    if execution.breaks(Broken::JoinWithoutEnd) {
        past.sequences.clear();
    }
    let mut seed = past.offsets.get(&on).copied();
    if !past.sequences.is_empty() {
        let &end = line.ends.get(&on).ok_or(Refused::on(MISSING_END, on))?;
        // The end of an empty channel seeds nothing.
        seed = seed.max(Some(end - 1).filter(|&last| last >= 0));
    }
    let Some(seed) = seed else { return Ok(None) };
    for ((_, sender), sequence) in past.sequences {
        execution.state.marks.insert((on, sender), (sequence, seed));
    }
    execution.fed.insert(on, seed);
    execution.delivered.insert(on, seed);
    let log_start = line.log_starts.get(&on).copied().unwrap_or(0);
    Ok(Some(seed.saturating_add(1).max(log_start)))
}

/// Decision D5.
fn start(
    execution: &mut Execution,
    line: &OpenLine,
    recorded: bool,
    opened: &Opened,
) -> Result<(), Refused> {
    for &on in &line.inputs {
        let reported = line.start.get(&on).copied();
        let covered = execution
            .fed
            .get(&on)
            .map_or(0, |&fed| fed.saturating_add(1));
        let start = if let Some(&resume) = opened.resume.get(&on) {
            Some(resume)
        } else if recorded && !opened.joined.contains_key(&on) {
            if reported.is_some_and(|reported| reported > covered) {
                return Err(Refused {
                    code: "vc-positions-ahead",
                    on: Some(on),
                    offset: reported,
                });
            }
            Some(reported.unwrap_or(covered))
        } else if recorded && line.deleted.contains(&topic_of(on)) {
            // It joins settled to its end.
            None
        } else {
            reported
        };
        if let Some(start) = start {
            execution.start_at(on, start);
            execution.resume.insert(on, start);
        }
    }
    Ok(())
}

/// The first face of G10: the position to resume from lies below the log start. A buffer head that was passed is lower
/// still and is named first.
fn resume_is_retained(
    execution: &Execution,
    log_starts: &BTreeMap<Channel, i64>,
    line: &OpenLine,
) -> Result<(), Refused> {
    if execution.breaks(Broken::IgnoreLostPositions) {
        return Ok(());
    }
    for &on in &execution.inputs {
        let (Some(&log_start), Some(&resume)) = (log_starts.get(&on), execution.resume.get(&on))
        else {
            continue;
        };
        if line.deleted.contains(&topic_of(on)) {
            continue;
        }
        if let Some(head) = execution.held(on).first()
            && head.record.offset < log_start
        {
            return Err(Refused::at("vc-positions-lost", on, head.record.offset));
        }
        if resume < log_start {
            return Err(Refused::at("vc-positions-lost", on, resume));
        }
    }
    Ok(())
}
