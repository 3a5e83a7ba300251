use parsley_stage::{Message, Outbox, Stage, Topic, codec};

fn main() {
    let orders = Topic::new("orders", codec::string(), codec::string());
    let _stage = Stage::stateful("s", codec::string(), codec::u64())
        .on(&orders, |_count: &mut u32, _order: Message<String, String>, _out: &mut Outbox| Ok(()));
}
