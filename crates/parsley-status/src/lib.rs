//! What an application is doing, over HTTP: for the one who operates it, and for Prometheus.
//!
//! | Path | What |
//! |---|---|
//! | `/` | a page that shows stages, rates, and what is held as a graph that ends at the record that is missing; it asks again every second |
//! | `/status` | [`Report`] as JSON |
//! | `/holds` | [`Holds`] as JSON |
//! | `/metrics` | the metrics of the process as Prometheus reads them, where a recorder was given ([`Metrics`]) |
//!
//! Anything that is [`Observed`] can be served, which the running applications of both hosts are:
//!
//! ```
//! use std::sync::Arc;
//! use parsley_stage::{App, Stage, Topic, codec};
//! use parsley_status::{Metrics, StatusServer};
//!
//! # let orders = Topic::new("orders", codec::string(), codec::string());
//! # let confirmed = Topic::new("confirmed", codec::string(), codec::string());
//! # let confirm = Stage::stateless("confirm")
//! #     .sink(&confirmed)
//! #     .on(&orders, move |order, out| out.send(&confirmed, &order.key, &order.value))
//! #     .build()?;
//! # let app = App::named("shop").stage(confirm).build()?;
//! // Before the host starts: a task has its metrics registered when it is opened.
//! let metrics = Metrics::install()?;
//! let host = parsley_embedded::Host::in_memory();
//! for topic in app.topics() {
//!     host.create_topic(topic, 2)?;
//! }
//! let running = Arc::new(host.start(&app)?);
//! let server = StatusServer::builder().metrics(metrics).start(&running)?;
//! println!("http://{}/", server.address());
//! # running.stop()?;
//! # server.stop();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Who may look
//!
//! Whoever reaches the address. It is 127.0.0.1 unless another is given, there is no password, and nothing can be changed through it: what
//! is served are names, positions, counts and the messages of failures. No key, value or header of a record is.
//!
//! # What it takes
//!
//! One thread, and at most four looks at the application a second, however many ask. A client that is slow, or does not end its request, is
//! cut off after ten seconds and holds up nobody: neither the application, nor a stop, nor, while there are fewer than 64 of its kind, other clients.

#![forbid(unsafe_code)]

mod answer;
mod error;
mod look;
mod metrics;
mod server;

pub use error::{RecorderTaken, ServeError};
pub use metrics::Metrics;
pub use parsley_stage::report::{Holds, Observed, Report};
pub use server::{StatusServer, StatusServerBuilder};
