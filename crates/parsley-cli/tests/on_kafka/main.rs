//! The program on a real broker. Every test has topics of its own; all share one broker. The modules' names begin with `on_kafka_`: the gate
//! runs those apart.

#[path = "../causality/mod.rs"]
mod causality;
#[path = "../running/mod.rs"]
mod running;
#[path = "../seeded/mod.rs"]
mod seeded;
#[path = "../status_page/mod.rs"]
mod status_page;

mod on_kafka_brokers;
mod on_kafka_check;
mod on_kafka_demo;
mod on_kafka_dump;
mod on_kafka_kill;
mod on_kafka_probe;
mod on_kafka_status;
mod world;
