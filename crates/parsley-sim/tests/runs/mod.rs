//! Runs written by hand, to look at and to test diagrams with.

use parsley_sim::trace::{At, Event, Found, Kind, Trace};

/// A trace under construction: one call an event, in the step that was set last.
pub struct Script {
    trace: Trace,
    step: u64,
}

impl Script {
    pub fn new(scenario: &str, seed: u64, actors: &[&str], channels: &[&str]) -> Self {
        let names = |all: &[&str]| all.iter().map(|&name| name.to_owned()).collect();
        let trace = Trace {
            actors: names(actors),
            channels: names(channels),
            ..Trace::of(scenario, seed)
        };
        Self { trace, step: 0 }
    }

    pub fn step(&mut self, step: u64) -> &mut Self {
        self.step = step;
        self
    }

    pub fn event(&mut self, actor: Option<usize>, kind: Kind) -> &mut Self {
        self.trace.events.push(Event {
            step: self.step,
            actor,
            kind,
        });
        self
    }

    pub fn started(&mut self, actor: usize, restored: u64) -> &mut Self {
        self.event(Some(actor), Kind::Started { restored })
    }

    pub fn crashed(&mut self, actor: usize, mid_step: bool) -> &mut Self {
        self.event(Some(actor), Kind::Crashed { mid_step })
    }

    pub fn sent(&mut self, actor: usize, at: At, clock: &str) -> &mut Self {
        self.event(
            Some(actor),
            Kind::Sent {
                at,
                clock: clock.to_owned(),
            },
        )
    }

    pub fn received(&mut self, actor: usize, at: At) -> &mut Self {
        self.event(Some(actor), Kind::Received { at })
    }

    pub fn held(&mut self, actor: usize, at: At, blocked_by: &str) -> &mut Self {
        self.event(
            Some(actor),
            Kind::Held {
                at,
                blocked_by: blocked_by.to_owned(),
            },
        )
    }

    pub fn delivered(&mut self, actor: usize, at: At) -> &mut Self {
        self.event(
            Some(actor),
            Kind::Delivered {
                at,
                was_held: false,
            },
        )
    }

    pub fn delivered_late(&mut self, actor: usize, at: At) -> &mut Self {
        self.event(Some(actor), Kind::Delivered { at, was_held: true })
    }

    pub fn committed(&mut self, actor: usize) -> &mut Self {
        self.event(Some(actor), Kind::Committed)
    }

    pub fn aborted(&mut self, actor: usize) -> &mut Self {
        self.event(Some(actor), Kind::Aborted)
    }

    pub fn advanced(&mut self, actor: usize, channel: usize, next: i64) -> &mut Self {
        self.event(Some(actor), Kind::Advanced { channel, next })
    }

    pub fn note(&mut self, actor: Option<usize>, text: &str) -> &mut Self {
        self.event(actor, Kind::Note(text.to_owned()))
    }

    pub fn finish(self) -> Trace {
        self.trace
    }
}

pub fn at(channel: usize, offset: i64) -> At {
    At { channel, offset }
}

const SHOP: usize = 0;
const AUDITOR: usize = 1;
const BILLING: usize = 2;
const SHIPPING: usize = 3;
const LEDGER: usize = 4;
const ORDERS: usize = 0;
const BILLS: usize = 1;
const PARCELS: usize = 2;

/// Five actors: orders are billed, bills are shipped and booked; the ledger holds parcels whose bills it has not seen, and goes down while it does.
pub fn shop() -> Trace {
    let mut run = Script::new(
        "orders-billed-and-shipped",
        42,
        &["shop", "auditor", "billing/0", "shipping/0", "ledger/0"],
        &["orders:0", "bills:0", "parcels:0"],
    );
    run.started(BILLING, 0)
        .started(SHIPPING, 0)
        .started(LEDGER, 0);
    run.step(1).sent(SHOP, at(ORDERS, 0), "");
    run.step(2)
        .received(BILLING, at(ORDERS, 0))
        .delivered(BILLING, at(ORDERS, 0));
    run.sent(BILLING, at(BILLS, 0), "orders:0<=0")
        .committed(BILLING);
    run.step(3).sent(SHOP, at(ORDERS, 1), "orders:0<=0");
    run.step(4)
        .received(SHIPPING, at(BILLS, 0))
        .held(SHIPPING, at(BILLS, 0), "orders:0<=0");
    run.step(5)
        .received(SHIPPING, at(ORDERS, 0))
        .delivered(SHIPPING, at(ORDERS, 0))
        .delivered_late(SHIPPING, at(BILLS, 0));
    run.sent(SHIPPING, at(PARCELS, 0), "bills:0<=0, orders:0<=0")
        .committed(SHIPPING);
    run.step(6)
        .received(LEDGER, at(PARCELS, 0))
        .held(LEDGER, at(PARCELS, 0), "bills:0<=0")
        .committed(LEDGER);
    run.step(7)
        .received(BILLING, at(ORDERS, 1))
        .delivered(BILLING, at(ORDERS, 1));
    run.sent(BILLING, at(BILLS, 2), "bills:0<=0, orders:0<=1")
        .crashed(BILLING, true);
    run.step(8).crashed(LEDGER, false);
    run.step(9)
        .started(BILLING, 0)
        .aborted(BILLING)
        .note(None, "marker at bills:0@3, aborted");
    run.step(10)
        .received(BILLING, at(ORDERS, 1))
        .delivered(BILLING, at(ORDERS, 1));
    run.sent(BILLING, at(BILLS, 4), "bills:0<=0, orders:0<=1")
        .committed(BILLING);
    run.step(11).started(LEDGER, 1);
    run.step(12)
        .received(LEDGER, at(BILLS, 0))
        .held(LEDGER, at(BILLS, 0), "orders:0<=0");
    run.step(13).delivered(AUDITOR, at(ORDERS, 0));
    run.step(14)
        .received(LEDGER, at(ORDERS, 0))
        .delivered(LEDGER, at(ORDERS, 0));
    run.delivered_late(LEDGER, at(BILLS, 0))
        .delivered_late(LEDGER, at(PARCELS, 0))
        .committed(LEDGER);
    run.step(15).advanced(SHIPPING, BILLS, 4);
    run.step(16)
        .received(SHIPPING, at(ORDERS, 1))
        .delivered(SHIPPING, at(ORDERS, 1));
    run.received(SHIPPING, at(BILLS, 4))
        .delivered(SHIPPING, at(BILLS, 4));
    run.sent(SHIPPING, at(PARCELS, 2), "bills:0<=4, orders:0<=1")
        .committed(SHIPPING);
    run.step(17)
        .delivered(AUDITOR, at(PARCELS, 0))
        .delivered(AUDITOR, at(ORDERS, 1))
        .delivered(AUDITOR, at(PARCELS, 2));
    run.step(18)
        .sent(AUDITOR, at(ORDERS, 2), "orders:0<=1, parcels:0<=2");
    run.step(19)
        .event(Some(LEDGER), Kind::Dropped { at: at(ORDERS, 0) })
        .received(LEDGER, at(PARCELS, 2));
    run.held(LEDGER, at(PARCELS, 2), "bills:0<=4");
    run.step(20).event(
        Some(BILLING),
        Kind::Refused {
            code: "G10".to_owned(),
            found: "orders:0 begins at 3, past the position 2".to_owned(),
        },
    );
    run.finish()
}

/// The same shop with a ledger that asks no clock: it books a parcel before its bill.
pub fn careless_ledger() -> Trace {
    let mut run = Script::new(
        "orders-billed-and-shipped",
        7,
        &["shop", "auditor", "billing/0", "shipping/0", "ledger/0"],
        &["orders:0", "bills:0", "parcels:0"],
    );
    run.started(BILLING, 0)
        .started(SHIPPING, 0)
        .started(LEDGER, 0);
    run.step(1).sent(SHOP, at(ORDERS, 0), "");
    run.step(2)
        .received(BILLING, at(ORDERS, 0))
        .delivered(BILLING, at(ORDERS, 0));
    run.sent(BILLING, at(BILLS, 0), "orders:0<=0")
        .committed(BILLING);
    run.step(3)
        .received(SHIPPING, at(BILLS, 0))
        .delivered(SHIPPING, at(BILLS, 0));
    run.sent(SHIPPING, at(PARCELS, 0), "bills:0<=0, orders:0<=0")
        .committed(SHIPPING);
    run.step(4)
        .received(LEDGER, at(PARCELS, 0))
        .delivered(LEDGER, at(PARCELS, 0))
        .committed(LEDGER);
    run.step(5)
        .received(LEDGER, at(BILLS, 0))
        .delivered(LEDGER, at(BILLS, 0));
    let mut trace = run.finish();
    trace.violation = Some(Found {
        rule: "causal order".to_owned(),
        text: "ledger/0 delivered bills:0@0 after parcels:0@0, which it had caused".to_owned(),
        actor: Some(LEDGER),
        record: Some(at(PARCELS, 0)),
        other: Some(at(BILLS, 0)),
        path: vec![at(BILLS, 0), at(PARCELS, 0)],
    });
    trace
}

/// Twelve actors and some three hundred events: tasks in a ring of three stages, each record held by its second reader for a while.
pub fn crowd() -> Trace {
    let actors = [
        "edge-north",
        "edge-south",
        "observer",
        "enrichment/0",
        "enrichment/1",
        "enrichment/2",
        "settlement/0",
        "settlement/1",
        "settlement/2",
        "notification/0",
        "notification/1",
        "notification/2",
    ];
    let channels = [
        "orders:0",
        "orders:1",
        "orders:2",
        "enriched:0",
        "enriched:1",
        "enriched:2",
        "settled:0",
        "settled:1",
        "settled:2",
    ];
    let mut run = Script::new("three-stages-in-a-crowd", 9_001, &actors, &channels);
    for task in 3..12 {
        run.started(task, 0);
    }
    for round in 0..12_i64 {
        let p = usize::try_from(round % 3).expect("a remainder");
        let offset = round / 3 * 2;
        run.step(round.unsigned_abs() * 5 + 1)
            .sent(p % 2, at(p, offset), "orders:2<=1");
        run.step(round.unsigned_abs() * 5 + 2)
            .received(3 + p, at(p, offset))
            .delivered(3 + p, at(p, offset));
        run.sent(3 + p, at(3 + p, offset), "orders:0<=4, orders:1<=2")
            .committed(3 + p);
        run.step(round.unsigned_abs() * 5 + 3)
            .received(6 + p, at(3 + p, offset))
            .held(6 + p, at(3 + p, offset), "orders:0<=4");
        run.committed(6 + p)
            .received(6 + p, at(p, offset))
            .delivered(6 + p, at(p, offset));
        run.delivered_late(6 + p, at(3 + p, offset)).sent(
            6 + p,
            at(6 + p, offset),
            "enriched:0<=2, orders:0<=4",
        );
        if round == 5 {
            run.crashed(6 + p, true);
            run.step(round.unsigned_abs() * 5 + 4)
                .started(6 + p, 1)
                .aborted(6 + p);
            run.received(6 + p, at(p, offset))
                .delivered(6 + p, at(p, offset))
                .delivered_late(6 + p, at(3 + p, offset));
            run.sent(6 + p, at(6 + p, offset + 1), "enriched:0<=2, orders:0<=4")
                .committed(6 + p);
        } else {
            run.committed(6 + p);
            run.step(round.unsigned_abs() * 5 + 4);
        }
        let last = if round == 5 { offset + 1 } else { offset };
        run.received(9 + (p + 1) % 3, at(6 + p, last)).held(
            9 + (p + 1) % 3,
            at(6 + p, last),
            "enriched:0<=2",
        );
        run.received(9 + (p + 1) % 3, at(3 + p, offset))
            .delivered(9 + (p + 1) % 3, at(3 + p, offset));
        run.delivered_late(9 + (p + 1) % 3, at(6 + p, last))
            .committed(9 + (p + 1) % 3);
        run.delivered(2, at(6 + p, last));
        run.advanced(9 + p, 6 + p, last + 2);
    }
    run.finish()
}
