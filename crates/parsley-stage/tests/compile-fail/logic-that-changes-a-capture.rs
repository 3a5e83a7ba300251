use parsley_stage::{Stage, Topic, codec};

fn main() {
    let orders = Topic::new("orders", codec::string(), codec::string());
    let mut seen = Vec::new();
    let _stage = Stage::stateless("s").on(&orders, move |order, _out| {
        seen.push(order.value);
        Ok(())
    });
}
