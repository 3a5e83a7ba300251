//! A naive model of the protocol, written from `docs/protocol.md` alone.
//!
//! It judges the node (`parsley-core`), so it shares no code with it: plain tuples for identities, maps for clocks, full
//! scans everywhere, and every derived value computed anew from what it is derived from. Where the page leaves something
//! open the model follows `docs/decisions.md`. Clarity comes first; it is fast enough to be the protocol of a small
//! simulated world.
//!
//! A [`Model`] is committed bytes and, while it runs, an [`Execution`] over them. What a host may do with a node it may do
//! with the model: open it from what is committed, feed records and positions, pull deliveries, stamp sends, commit or
//! abort the step. A model can be told to break one rule ([`Broken`]): then it is what a judge of the protocol must condemn.
//!
//! ```
//! use std::collections::{BTreeMap, BTreeSet};
//! use parsley_model::{Clock, Fetched, Model, OpenLine, channel, named};
//!
//! let (orders, payments) = (channel(named("orders"), 0), channel(named("payments"), 0));
//! let mut model = Model::default();
//! model.open(&OpenLine {
//!     name: "shop/settle/0".to_owned(),
//!     inputs: BTreeSet::from([orders, payments]),
//!     ..OpenLine::default()
//! })?;
//! let mut after_the_order = Clock::default();
//! after_the_order.claim_offset(orders, 0);
//! model.receive(payments, &Fetched::claiming(0, &after_the_order))?;
//! assert_eq!(model.deliver_next(), None);
//! model.receive(orders, &Fetched::default())?;
//! let delivered: Vec<_> = model.drain().iter().map(|delivery| delivery.on).collect();
//! assert_eq!(delivered, [orders, payments]);
//! model.commit(&BTreeMap::new());
//! # Ok::<(), parsley_model::Refused>(())
//! ```

#![forbid(unsafe_code)]

mod broken;
mod clock;
mod delivery;
mod execution;
mod facts;
mod hold;
mod id;
mod layout;
mod model;
mod open;
mod record;
mod refused;
mod stamp;

pub use broken::{Broken, UnknownBroken};
pub use clock::Clock;
pub use execution::{Execution, State};
pub use facts::{Mark, OpenLine, Opened, Truncation};
pub use hold::{Hold, Wait};
pub use id::{
    Channel, Sender, Topic, channel, channel_text, named, parse_channel, parse_uuid, topic_of,
    uuid_text,
};
pub use layout::{envelope, parse};
pub use model::{Model, Store};
pub use record::{Delivery, Event, Fetched, Header, Held, Record, Stamp};
pub use refused::{MISSING_END, Refused};
