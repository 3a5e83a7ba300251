//! A consumer's place in its group.

use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, ConsumerGroupMetadata};
use rdkafka_sys as sys;

use super::{Owned, bytes_of};

/// What the brokers know a member of a group by.
#[derive(PartialEq, Eq)]
struct Place {
    generation: i32,
    member: Vec<u8>,
}

/// The place that a consumer has in its group now, for committing positions in its name; `None` when it has none. librdkafka forgets the generation
/// or the member when it learns that the group has gone on without it, and a broker takes positions that name neither from anybody.
pub(crate) fn membership<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
) -> Option<ConsumerGroupMetadata> {
    let before = place(consumer)?;
    let membership = consumer.group_metadata()?;
    // A generation does not come back: what was true before and after was true in between.
    (place(consumer)? == before).then_some(membership)
}

fn place<C: ConsumerContext>(consumer: &BaseConsumer<C>) -> Option<Place> {
    // SAFETY: the client is alive, as `consumer` is. What is returned is ours to release, or null.
    let metadata = unsafe {
        Owned::new(
            sys::rd_kafka_consumer_group_metadata(consumer.client().native_ptr()),
            sys::rd_kafka_consumer_group_metadata_destroy,
        )
    }?;
    // SAFETY: the metadata is alive, and so is its string.
    let (generation, member) = unsafe {
        (
            sys::rd_kafka_consumer_group_metadata_generation_id(metadata.as_ptr()),
            bytes_of(sys::rd_kafka_consumer_group_metadata_member_id(
                metadata.as_ptr(),
            )),
        )
    };
    (generation >= 0 && !member.is_empty()).then(|| Place {
        generation,
        member: member.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use rdkafka::config::ClientConfig;

    use super::*;

    #[test]
    fn who_has_not_joined_has_no_place() {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", "127.0.0.1:9")
            .set("group.id", "nobody")
            .create()
            .unwrap();
        assert!(consumer.group_metadata().is_some(), "and yet there is this");
        assert!(membership(&consumer).is_none());
    }
}
