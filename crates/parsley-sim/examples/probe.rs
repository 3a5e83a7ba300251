use parsley_sim::{run::Request, scenarios, Sabotage, Counts};
fn main() {
    let mut args = std::env::args().skip(1);
    let name = args.next().unwrap_or("all".into());
    let seeds: u64 = args.next().and_then(|s| s.parse().ok()).unwrap_or(100);
    let one: Option<u64> = args.next().and_then(|s| s.parse().ok());
    for scenario in scenarios::all() {
        if name != "all" && scenario.name != name { continue; }
        if let Some(seed) = one {
            let o = Request { scenario, seed, trace: true }.run(Sabotage::None);
            println!("{}", o.trace.unwrap());
            continue;
        }
        let t = std::time::Instant::now();
        let mut total = Counts::default();
        let mut bad = 0;
        let mut floors = vec![0; scenario.floors.len()];
        for seed in 0..seeds {
            let o = Request { scenario, seed, trace: false }.run(Sabotage::None);
            if let Some(v) = o.violation { bad += 1; if bad < 4 { println!("seed {seed}: {} {}", v.rule, v.text); } }
            for (n, f) in scenario.floors.iter().enumerate() { if (f.fired)(&o.counts) { floors[n] += 1; } }
            total += o.counts;
        }
        println!("{} {seeds} seeds: {bad} violations, {:?}", scenario.name, t.elapsed());
        for (f, n) in scenario.floors.iter().zip(&floors) { println!("   {} {n} (floor {})", f.what, f.of(seeds)); }
        println!("   {:?}", total.named().filter(|(_, n)| *n > 0).collect::<Vec<_>>());
    }
}
