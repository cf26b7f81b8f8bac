//! The functions of the fuzz targets of this crate: `cargo xtask fuzz` calls them with arbitrary bytes,
//! and a test with the stored corpus.

use tollgate::Time;

use crate::node_registry::NodeReport;
use crate::strict::fuzz_target::{check_counter, check_lua_reply};
use crate::{client, shared_texts};

/// The time of a server, in microseconds since 1970.
const NOW: Time = Time::from_nanos(1_700_000_000_000_000_000);

/// Reads any bytes as the reply of a Redis server, in every place that expects one.
pub fn redis_reply(bytes: &[u8]) {
    let Ok(value) = redis::parse_redis_value(bytes) else { return };
    client::fuzz_target::check_reply(&value);
    check_lua_reply(&value);
    let _ = NodeReport::read(&value);
    if let Some(texts) = shared_texts::read(&value, NOW) {
        assert!(texts.iter().all(|(_, end)| *end >= NOW), "{texts:?}");
    }
}

/// Reads any bytes as a counter in Redis, of every algorithm.
pub fn redis_counter(bytes: &[u8]) {
    check_counter(bytes, NOW);
}

#[cfg(test)]
mod tests {
    use tollgate_corpus::Corpus;

    #[test]
    fn the_corpus_of_replies_passes() {
        Corpus::of("redis_reply").replay(super::redis_reply);
    }

    #[test]
    fn the_corpus_of_counters_passes() {
        Corpus::of("redis_counter").replay(super::redis_counter);
    }
}
