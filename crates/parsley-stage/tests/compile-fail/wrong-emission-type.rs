use parsley_stage::{Stage, Topic, codec};

fn main() {
    let orders = Topic::new("orders", codec::string(), codec::string());
    let totals = Topic::new("totals", codec::string(), codec::u64());
    let _stage = Stage::stateless("s")
        .sink(&totals)
        .on(&orders, move |order, out| out.send(&totals, &order.key, &order.value));
}
