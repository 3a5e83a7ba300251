//! Having sent what lingers.

use rdkafka::ClientContext;
use rdkafka::client::Client;
use rdkafka_sys as sys;

/// How long it is said that nothing is to linger: long enough for the threads that send to hear it.
const MILLISECOND: i32 = 1;

/// Has a producer send what it has, without waiting for more to fill a batch (`linger.ms`). `rdkafka`'s own `flush` says so for no time at all,
/// which those who send mostly miss.
pub(crate) fn hurry<C: ClientContext>(producer: &Client<C>) {
    // SAFETY: the client is alive, as `producer` is. With reports as events, which `rdkafka` asks for, the call waits and takes none of them.
    // It says whether everything is sent by then, which who counts what is in flight knows better.
    let _ = unsafe { sys::rd_kafka_flush(producer.native_ptr(), MILLISECOND) };
}
