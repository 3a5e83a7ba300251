use parsley_sim::{run::Request, scenarios, Sabotage, HostFault};
use parsley_model::Broken;
use std::collections::BTreeMap;
fn main() {
    let seeds: u64 = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(100);
    let only = std::env::args().nth(2);
    let mut all: Vec<(String, Sabotage)> = vec![("model".into(), Sabotage::Model)];
    all.extend(HostFault::ALL.iter().map(|f| (f.as_str().to_string(), Sabotage::Host(*f))));
    all.extend(Broken::ALL.iter().map(|f| (f.as_str().to_string(), Sabotage::Protocol(*f))));
    for (name, sabotage) in all {
        if only.as_ref().is_some_and(|o| *o != name) { continue; }
        let mut line = String::new();
        for scenario in scenarios::all() {
            let mut by: BTreeMap<String, u64> = BTreeMap::new();
            let mut example = None;
            for seed in 0..seeds {
                let o = Request { scenario, seed, trace: false }.run(sabotage);
                if let Some(v) = o.violation { *by.entry(v.rule.to_string()).or_default() += 1; example.get_or_insert((seed, v.text)); }
            }
            if !by.is_empty() { line += &format!(" {}: {by:?}", scenario.name); if only.is_some() { println!("{} {example:?}", scenario.name); } }
        }
        println!("{name:34} {line}");
    }
}
