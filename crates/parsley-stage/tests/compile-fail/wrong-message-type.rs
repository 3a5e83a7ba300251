use parsley_stage::{Message, Outbox, Stage, Topic, codec};

fn main() {
    let orders = Topic::new("orders", codec::string(), codec::u64());
    let _stage = Stage::stateless("s").on(&orders, |_order: Message<String, String>, _out: &mut Outbox| Ok(()));
}
