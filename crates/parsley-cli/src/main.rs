//! The `parsley` command.

fn main() {}
