//! The workload: key spellings, key sequences, and limits that decide equally for every subject.

use std::sync::Arc;
use std::time::Duration;

/// The exponent of the skewed traffic.
pub(crate) const ZIPF: f64 = 1.05;

/// The most threads that decide at once; each has a sequence of its own.
pub(crate) const THREADS: usize = 2;

/// A limit that all subjects can express: one token per `every`, up to `burst` of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    pub(crate) burst: u32,
    pub(crate) every: Duration,
}

impl Allowance {
    /// Creates a limit that allows `decisions` on one key.
    pub(crate) fn hot(decisions: usize) -> Allowance {
        Allowance { burst: to_burst(decisions), every: Duration::from_secs(1) }
    }

    /// Creates a limit that allows `decisions` over many keys, a tenth of them on the most popular.
    ///
    /// Tokens are refilled so slowly that a key stays in debt, and therefore alive, for the whole run, and a
    /// drained one stays drained.
    pub(crate) fn wide(decisions: usize) -> Allowance {
        Allowance { burst: to_burst(decisions / 8 + 1_000), every: Duration::from_secs(300) }
    }
}

fn to_burst(decisions: usize) -> u32 {
    u32::try_from(decisions).unwrap_or(u32::MAX).max(1)
}

/// Returns whether this key has no tokens in the "90 % denied" scenario.
///
/// Keys 2, 12, 22, … have tokens: a tenth of uniform traffic, and nearly a tenth of Zipf traffic, in which
/// the rank is the index.
pub(crate) fn is_drained(index: usize) -> bool {
    index % 10 != 2
}

/// The prefix of every key.
pub(crate) const KEY_START: &str = "user:";

/// Writes key `index` into `out`: 16 to 31 bytes, like user names.
pub(crate) fn spell(index: usize, out: &mut String) {
    use std::fmt::Write;
    const TAIL: &str = "@eu-west-1.shop";
    out.clear();
    write!(out, "{KEY_START}{index:011}").expect("writing to a string");
    out.push_str(&TAIL[..scatter(index as u64) as usize % (TAIL.len() + 1)]);
}

/// A type of key that is made from an index.
pub(crate) trait Key: Send + Sync + 'static {
    fn from_index(index: usize) -> Self;
}

impl Key for String {
    fn from_index(index: usize) -> String {
        let mut key = String::with_capacity(31);
        spell(index, &mut key);
        key
    }
}

impl Key for u64 {
    fn from_index(index: usize) -> u64 {
        index as u64
    }
}

/// A limiter without keys has one state.
impl Key for () {
    fn from_index(_: usize) {}
}

/// The keys of each thread, in order.
///
/// Keys lie in memory in this order. A server has just parsed its key, so the key is warm and only the
/// limiter's own memory is cold.
pub(crate) type Sequences<K> = Arc<[Vec<K>; THREADS]>;

/// Returns sequences of a single key.
pub(crate) fn hot<K: Key>(decisions: usize) -> Sequences<K> {
    sequences(decisions, |_| 0)
}

/// Returns sequences in which every key is equally likely.
pub(crate) fn uniform<K: Key>(keys: usize, decisions: usize) -> Sequences<K> {
    sequences(decisions, |random| ((u128::from(random) * keys as u128) >> 64) as usize)
}

/// Returns sequences in which the key of rank r has a likelihood proportional to r^-1.05.
pub(crate) fn zipf<K: Key>(keys: usize, decisions: usize) -> Sequences<K> {
    let mut sum = 0.0;
    let cumulated: Vec<f64> = (1..=keys)
        .map(|rank| {
            sum += (rank as f64).powf(-ZIPF);
            sum
        })
        .collect();
    sequences(decisions, |random| {
        let point = random as f64 / u64::MAX as f64 * sum;
        cumulated.partition_point(|&edge| edge < point).min(keys - 1)
    })
}

fn sequences<K: Key>(decisions: usize, index: impl Fn(u64) -> usize) -> Sequences<K> {
    Arc::new(std::array::from_fn(|thread| {
        let seed = scatter(thread as u64 + 1);
        let draw = |step| K::from_index(index(scatter(seed.wrapping_add(step as u64))));
        (0..decisions).map(draw).collect()
    }))
}

/// Returns a number that looks random for each `n` (SplitMix64), equal in every run.
pub(crate) fn scatter(n: u64) -> u64 {
    let mut z = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
