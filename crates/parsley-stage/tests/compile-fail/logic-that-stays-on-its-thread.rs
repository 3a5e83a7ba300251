use std::rc::Rc;

use parsley_stage::{Stage, Topic, codec};

fn main() {
    let orders = Topic::new("orders", codec::string(), codec::string());
    let limit = Rc::new(10);
    let _stage = Stage::stateless("s").on(&orders, move |order, _out| {
        if order.value.len() > *limit { Err("too long".into()) } else { Ok(()) }
    });
}
