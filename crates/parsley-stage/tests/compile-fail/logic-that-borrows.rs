use parsley_stage::{Stage, Topic, codec};

fn main() {
    let orders = Topic::new("orders", codec::string(), codec::string());
    let limit = String::from("ten");
    let _stage = Stage::stateless("s").on(&orders, |order, _out| {
        if order.value == limit { Err("too much".into()) } else { Ok(()) }
    });
}
