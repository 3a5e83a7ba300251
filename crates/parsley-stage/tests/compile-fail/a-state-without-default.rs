use parsley_stage::{Stage, codec};

struct Book;

fn main() {
    let books = codec::from_fns(|_: &Book| Ok(vec![]), |_| Ok(Book));
    let _stage = Stage::stateful("s", codec::string(), books);
}
