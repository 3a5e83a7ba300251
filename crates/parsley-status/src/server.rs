//! The server's thread: accepts, answers, and ends.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parsley_stage::report::Observed;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{interval, sleep, timeout};

use crate::answer::answer;
use crate::error::ServeError;
use crate::look::Lookout;
use crate::metrics::Metrics;

/// How many clients are served at once. Others wait until they are accepted.
const CONNECTIONS_MAX: usize = 64;
/// How long the head of a request may take.
const HEAD_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a request and its answer may take, from the first byte to the last, the application's part among it.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest head of a request, in bytes, and how many headers it may have.
const HEAD_BYTES_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;
/// How often the recorder is looked after.
const UPKEEP: Duration = Duration::from_secs(5);
/// How long to wait when the system has no socket left.
const EXHAUSTED: Duration = Duration::from_millis(100);
/// A look at each of the three views may be under way.
const LOOKS_MAX: usize = 3;

/// Configures a server: [`StatusServer::builder`] begins, [`StatusServerBuilder::start`] ends.
#[derive(Clone, Debug)]
#[must_use = "a server runs once it is started"]
pub struct StatusServerBuilder {
    address: SocketAddr,
    metrics: Option<Metrics>,
}

impl StatusServerBuilder {
    /// Sets the address to listen on. Default: 127.0.0.1, and a port that the system chooses, as it does for port 0.
    ///
    /// On an address that other machines reach, whoever reaches it may look.
    pub fn address(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self
    }

    /// Sets what `/metrics` answers with. Without it that path is not found.
    pub fn metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Starts the server for an application, which it does not keep alive: when the last `Arc` of it goes, the server says that it is over.
    ///
    /// While a request is answered the server holds an `Arc` of its own for a moment. Who drops the application and wants to be sure that it
    /// has stopped calls its `stop`.
    ///
    /// # Errors
    ///
    /// When the address cannot be listened on, or the system has no thread.
    pub fn start<O: Observed + 'static>(
        self,
        observed: &Arc<O>,
    ) -> Result<StatusServer, ServeError> {
        let asked = self.address;
        let bind = |source| ServeError::Bind {
            address: asked,
            source,
        };
        let listener = TcpListener::bind(asked).map_err(bind)?;
        listener.set_nonblocking(true).map_err(bind)?;
        let address = listener.local_addr().map_err(bind)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(LOOKS_MAX)
            .thread_name("parsley-status-look")
            .build()
            .map_err(ServeError::Thread)?;
        let weak: Weak<dyn Observed> = Arc::<O>::downgrade(observed);
        let lookout = Arc::new(Lookout::new(weak, self.metrics));
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("parsley-status".to_owned())
            .spawn(move || run(runtime, listener, address, lookout, stopped))
            .map_err(ServeError::Thread)?;
        Ok(StatusServer {
            address,
            running: Mutex::new(Some((stop, thread))),
        })
    }
}

/// A server that shows what an application is doing. Dropping it stops it.
#[must_use = "dropping it stops the server"]
pub struct StatusServer {
    address: SocketAddr,
    running: Mutex<Option<(oneshot::Sender<()>, JoinHandle<()>)>>,
}

impl fmt::Debug for StatusServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatusServer")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl StatusServer {
    /// A configuration to begin with: 127.0.0.1, a port that the system chooses, no metrics.
    pub fn builder() -> StatusServerBuilder {
        StatusServerBuilder {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            metrics: None,
        }
    }

    /// Where it listens, with the port that it has.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops it, and returns when nobody listens on the address any more. Connections are cut off: no client is waited for, nor the
    /// application where it is being asked.
    pub fn stop(&self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((stop, thread)) = running.take() {
            // It has gone by itself if nobody hears.
            let _ = stop.send(());
            let _ = thread.join();
        }
    }
}

impl Drop for StatusServer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(
    runtime: Runtime,
    listener: TcpListener,
    address: SocketAddr,
    lookout: Arc<Lookout>,
    stopped: oneshot::Receiver<()>,
) {
    let ended = runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        tokio::select! {
            _ = stopped => Ok(()),
            () = accept(listener, address, &lookout) => Ok(()),
            () = keep_up(&lookout) => Ok(()),
        }
    });
    if let Err(error) = ended {
        let error: io::Error = error;
        tracing::error!(%address, %error, "the status server is over");
    }
    // Without waiting for a look that the application has not answered.
    runtime.shutdown_background();
}

async fn accept(listener: tokio::net::TcpListener, address: SocketAddr, lookout: &Arc<Lookout>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let is_local = address.ip().is_loopback();
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        let socket = match listener.accept().await {
            Ok((socket, _)) => socket,
            Err(error) => {
                tracing::debug!(%address, %error, "a client of the status server was not accepted");
                sleep(EXHAUSTED).await;
                continue;
            }
        };
        let lookout = Arc::clone(lookout);
        tokio::spawn(async move {
            // Whatever becomes of a connection is its client's concern.
            let _ = timeout(CONNECTION_TIMEOUT, serve(socket, lookout, is_local)).await;
            drop(permit);
        });
    }
}

/// Answers one request, and closes the connection.
async fn serve(socket: TcpStream, lookout: Arc<Lookout>, is_local: bool) -> hyper::Result<()> {
    let service = service_fn(async |request| {
        Ok::<_, std::convert::Infallible>(answer(&request, &lookout, is_local).await)
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(socket), service)
        .await
}

/// Looks after the recorder for as long as the server runs.
async fn keep_up(lookout: &Lookout) {
    let mut due = interval(UPKEEP);
    loop {
        due.tick().await;
        lookout.keep_up();
    }
}
