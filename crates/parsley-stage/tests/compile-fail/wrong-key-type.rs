use parsley_stage::{Stage, Topic, codec};

fn main() {
    let orders = Topic::new("orders", codec::i32(), codec::string());
    let _stage = Stage::stateful("s", codec::string(), codec::u64()).on(&orders, |_count, _order, _out| Ok(()));
}
