use parsley_stage::{Stage, Topic, codec};

fn main() {
    let orders = Topic::new("orders", codec::string(), codec::string());
    let sink = Topic::new("sink", codec::string(), codec::string());
    let _stage = Stage::stateless("s").on(&orders, move |order, out| {
        let sink = sink.clone();
        let kept = std::thread::spawn(move || out.send(&sink, &order.key, &order.value));
        kept.join().unwrap()
    });
}
