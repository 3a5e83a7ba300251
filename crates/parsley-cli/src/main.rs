//! The `parsley` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    parsley_cli::main()
}
