//! Event notification: a small event says that something has changed, and what it is stands on another topic.
//!
//! A document is stored, then announced; the announcement carries a version and no text. Indexers, mailers and caches react to
//! announcements by looking the document up. In the order of arrival they look it up too early and find the version before, or nothing,
//! which is why such consumers retry. Here the document has been delivered when its announcement comes, at the announced version at
//! least.

use std::error::Error;

use parsley::testing::TestDriver;
use parsley::{App, Stage, Topic, codec};
use serde::{Deserialize, Serialize};

#[derive(Clone, Default, Serialize, Deserialize)]
struct Document {
    version: u64,
    text: String,
}

/// Runs it on topics with identities of this seed, and says what there is to see.
pub fn run(seed: u64) -> Result<Vec<String>, Box<dyn Error>> {
    let uploads = Topic::new("uploads", codec::string(), codec::string());
    let documents = Topic::new("documents", codec::string(), codec::json::<Document>());
    let announced = Topic::new("announced", codec::string(), codec::u64());
    let index = Topic::new("index", codec::string(), codec::string());

    let store = Stage::stateful("store", codec::string(), codec::u64())
        .sink(&documents)
        .sink(&announced)
        .on(&uploads, {
            let (documents, announced) = (documents.clone(), announced.clone());
            move |version, upload, out| {
                *version += 1;
                let document = Document {
                    version: *version,
                    text: upload.value,
                };
                out.send(&documents, &upload.key, &document)?;
                out.send(&announced, &upload.key, version)
            }
        })
        .build()?;
    let indexer = Stage::stateful("indexer", codec::string(), codec::json::<Document>())
        .sink(&index)
        .on(&documents, |stored, document, _out| {
            *stored = document.value;
            Ok(())
        })
        .on(&announced, {
            let index = index.clone();
            move |stored, announced, out| {
                if stored.version < announced.value {
                    return Err(format!(
                        "version {} is announced, and {} is here",
                        announced.value, stored.version
                    )
                    .into());
                }
                out.send(&index, &announced.key, &stored.text)
            }
        })
        .build()?;
    let app = App::named("library").stage(store).stage(indexer).build()?;

    let mut driver = TestDriver::builder().seed(seed).build(&app)?;
    driver.input(&uploads).send("guide", "first words")?;
    driver.run()?;
    driver
        .output(&index)
        .assert_read([("guide".into(), "first words".into())]);

    // The second version is late: a lookup now would find the first, and index it under the second.
    driver.withhold("indexer", &documents)?;
    driver.input(&uploads).send("guide", "better words")?;
    driver.run()?;
    driver.assert_waits("indexer", &announced, &documents);
    driver.output(&index).assert_empty();
    let mut lines = vec![format!("the indexer holds: {}", driver.holds()?.holds[0])];

    driver.release("indexer", &documents)?;
    driver.run()?;
    driver
        .output(&index)
        .assert_read([("guide".into(), "better words".into())]);
    lines.push("with the document: \"better words\" are indexed".into());
    Ok(lines)
}

fn main() -> Result<(), Box<dyn Error>> {
    run(0)?.iter().for_each(|line| println!("{line}"));
    Ok(())
}
