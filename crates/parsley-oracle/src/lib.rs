//! Ground truth about causal order, to judge a protocol by.
//!
//! The protocol decides by clocks; this crate never sees one. A harness tells an [`Oracle`] what its actors really did: which record
//! was handed to whom, which record was sent after that, where it was appended, which steps committed and which never were. From this
//! the oracle keeps the true past of each record, and each delivery is held against it ([`Rule`]). It depends on no other crate of the
//! workspace, so it cannot share a mistake with what it judges.
//!
//! ```
//! use parsley_oracle::{Oracle, Rule, SendOrder};
//!
//! let mut oracle = Oracle::new();
//! let shop = oracle.add_actor("shop", SendOrder::Sequential);
//! let mail = oracle.add_actor("mail", SendOrder::PerKey { null_is_key: false });
//! let orders = oracle.add_channel("orders:0");
//! let parcels = oracle.add_channel("parcels:0");
//! oracle.consume(mail, orders, 0);
//! oracle.consume(mail, parcels, 0);
//!
//! let order = oracle.emit(shop, orders, Some(1));
//! let parcel = oracle.emit(shop, parcels, Some(1));
//! oracle.appended(order, 5)?;
//! oracle.appended(parcel, 0)?;
//! oracle.commit(shop);
//!
//! let violation = oracle.deliver(mail, parcels, 0).unwrap_err();
//! assert_eq!(violation.rule, Rule::CausalOrder);
//! assert_eq!(violation.other, Some(order));
//! assert!(oracle.explain(&violation).contains("orders:0@5"));
//! # Ok::<(), parsley_oracle::Misuse>(())
//! ```

#![forbid(unsafe_code)]

mod actor;
mod digest;
mod explain;
mod ids;
mod judge;
mod misuse;
mod oracle;
mod path;
mod record;
mod send_order;
mod set;
mod violation;

pub use ids::{Actor, Channel, Emission};
pub use misuse::Misuse;
pub use oracle::Oracle;
pub use send_order::SendOrder;
pub use violation::{Rule, Violation};
