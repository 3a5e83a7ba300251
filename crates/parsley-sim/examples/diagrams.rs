//! Writes the diagrams of runs written by hand: `cargo run -p parsley-sim --example diagrams -- <folder>`.

#[path = "../tests/runs/mod.rs"]
mod runs;

use std::{env, error::Error, fs, path::PathBuf};

use parsley_sim::{diagram, shiviz};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(env::args_os().nth(1).ok_or("usage: diagrams <folder>")?);
    fs::create_dir_all(&folder)?;
    for (name, trace) in [
        ("shop", runs::shop()),
        ("careless", runs::careless_ledger()),
        ("crowd", runs::crowd()),
    ] {
        fs::write(
            folder.join(name).with_extension("html"),
            diagram::html(&trace),
        )?;
        fs::write(
            folder.join(name).with_extension("log"),
            shiviz::shiviz(&trace),
        )?;
    }
    Ok(())
}
