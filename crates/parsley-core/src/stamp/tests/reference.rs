//! The stamp from scratch, term by term, as the plainest thing that could do it.

use super::*;

/// The clock of the node's next stamp, made of nothing but its terms as they are.
pub(super) fn stamp(node: &Node) -> Clock {
    let mut offsets: BTreeMap<Channel, Offset> = BTreeMap::new();
    let mut sequences: BTreeMap<(Channel, SenderId), i64> = BTreeMap::new();
    let past: Vec<&Clock> = node
        .inputs
        .iter()
        .map(|input| &input.advertised)
        .chain([&node.carried])
        .collect();
    let delivered = node
        .inputs
        .iter()
        .filter_map(|input| Some((input.channel, input.delivered?)));
    let own = &node.own;
    let own_offsets = own
        .channels
        .iter()
        .filter_map(|(&channel, sent)| Some((channel, sent.offset?)));
    let claimed = past.iter().flat_map(|clock| clock.offsets());
    for (channel, offset) in claimed
        .map(|claim| (claim.channel, claim.offset))
        .chain(delivered)
        .chain(own_offsets)
    {
        raise(&mut offsets, channel, offset);
    }
    let mut joined: BTreeMap<(Channel, SenderId), i64> = BTreeMap::new();
    for claim in past.iter().flat_map(|clock| clock.sequences()) {
        raise(&mut joined, (claim.channel, claim.sender), claim.sequence);
    }
    for ((channel, sender), sequence) in joined {
        if sender == node.sender {
            let is_sink =
                own.sinks.contains_key(&channel.topic) && !node.gone.contains(&channel.topic);
            let covered = own.channels.get(&channel).is_some_and(|sent| {
                sent.offset.is_some() && sent.covered.is_some_and(|covered| sequence <= covered)
            });
            if is_sink && !covered {
                raise(&mut sequences, (channel, sender), sequence);
            }
            continue;
        }
        let input = node.inputs.iter().find(|input| input.channel == channel);
        let mark = input.and_then(|input| input.delivered_sequences.get(&sender));
        match mark.filter(|mark| sequence <= mark.sequence) {
            Some(mark) => raise(&mut offsets, channel, mark.offset),
            None => raise(&mut sequences, (channel, sender), sequence),
        }
    }
    for (&channel, &sequence) in &own.claimed {
        raise(&mut sequences, (channel, node.sender), sequence);
    }
    Clock::from_claims(
        offsets
            .into_iter()
            .map(|(channel, offset)| OffsetClaim { channel, offset }),
        sequences
            .into_iter()
            .map(|((channel, sender), sequence)| SequenceClaim {
                channel,
                sender,
                sequence,
            }),
    )
}

fn raise<K: Ord>(claims: &mut BTreeMap<K, i64>, key: K, to: i64) {
    let claim = claims.entry(key).or_insert(to);
    *claim = to.max(*claim);
}
