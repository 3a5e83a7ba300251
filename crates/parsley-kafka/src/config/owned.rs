//! Properties of librdkafka that are the host's alone, and those that are nobody's to see.

/// Why a property of librdkafka is not the user's to set.
pub(super) fn owner_of(property: &str) -> Option<&'static str> {
    let why = match property {
        "bootstrap.servers" | "metadata.broker.list" => "set `brokers` instead",
        "isolation.level" => "records are read committed",
        "enable.auto.commit"
        | "enable.auto.offset.store"
        | "auto.commit.interval.ms"
        | "auto.commit.enable"
        | "offset.store.method" => "positions are committed with the step that they belong to",
        "auto.offset.reset" => "a position that is out of range is refused (G10), never moved",
        "group.id" => "it is the application's name and the stage's",
        "group.instance.id" | "group.protocol" | "group.remote.assignor" => {
            "a stage's tasks are assigned by the classic protocol, without static members"
        }
        "partition.assignment.strategy" => {
            "the partitions of one number go to one member (`range`)"
        }
        "transactional.id" => "each worker has one of its own",
        "transaction.timeout.ms" => "set `transaction_timeout_ms` instead",
        "enable.idempotence" | "acks" | "request.required.acks" => {
            "sends are acknowledged by all in-sync replicas, once and in order"
        }
        "max.in.flight.requests.per.connection" | "max.in.flight" => {
            "more than 5 would lose the order of sends; set nothing"
        }
        "partitioner" => "a send's partition is chosen before it is stamped",
        "enable.partition.eof" => "it tells a task how far it has read",
        "allow.auto.create.topics" => "a topic that is missing is reported, not made",
        "consume.callback.max.messages" | "interceptors" | "plugin.library.paths" => {
            "nothing may come between the log and the stage"
        }
        "client.rack" | "check.crcs" => return None,
        "enable.gapless.guarantee" => "not to be combined with transactions that are retried",
        "delivery.timeout.ms" | "message.timeout.ms" => {
            "a send is given up with its transaction; set `transaction_timeout_ms`"
        }
        "opaque"
        | "default_topic_conf"
        | "event_cb"
        | "dr_cb"
        | "dr_msg_cb"
        | "rebalance_cb"
        | "offset_commit_cb"
        | "error_cb"
        | "log_cb"
        | "stats_cb"
        | "throttle_cb"
        | "consume_cb"
        | "background_event_cb"
        | "socket_cb"
        | "connect_cb"
        | "closesocket_cb"
        | "open_cb"
        | "resolve_cb"
        | "enabled_events" => "it is not for configuration files",
        _ => return None,
    };
    Some(why)
}

/// Whether a property's value must not be shown.
pub(super) fn is_secret(property: &str) -> bool {
    let hidden = ["password", "secret", ".pem", "jaas", "token", "private"];
    hidden.iter().any(|part| property.contains(part))
        || property == "sasl.oauthbearer.config"
        || property == "ssl.engine.callback.data"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_that_the_guarantee_rests_on_are_owned() {
        for property in [
            "isolation.level",
            "enable.auto.commit",
            "enable.auto.offset.store",
            "auto.offset.reset",
            "group.id",
            "transactional.id",
            "enable.idempotence",
            "partition.assignment.strategy",
            "enable.partition.eof",
            "group.protocol",
            "group.instance.id",
            "transaction.timeout.ms",
            "allow.auto.create.topics",
        ] {
            assert!(owner_of(property).is_some(), "{property}");
        }
        for property in [
            "security.protocol",
            "linger.ms",
            "fetch.max.bytes",
            "client.rack",
        ] {
            assert_eq!(owner_of(property), None, "{property}");
        }
    }

    #[test]
    fn what_opens_doors_is_secret() {
        for property in [
            "sasl.password",
            "ssl.key.password",
            "ssl.keystore.password",
            "ssl.key.pem",
            "sasl.oauthbearer.client.secret",
            "sasl.oauthbearer.config",
        ] {
            assert!(is_secret(property), "{property}");
        }
        assert!(!is_secret("sasl.username"));
        assert!(!is_secret("ssl.ca.location"));
    }
}
