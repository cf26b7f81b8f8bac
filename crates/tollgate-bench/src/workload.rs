//! What is asked: key spellings, key sequences, and limits that decide the same for every subject.

use std::sync::Arc;
use std::time::Duration;

/// The exponent of the skewed traffic.
pub(crate) const ZIPF: f64 = 1.05;

/// At most this many threads ask at once; every one has a sequence of its own.
pub(crate) const THREADS: usize = 2;

/// One token every `every`, up to `burst` of them: the one limit all subjects can express.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    pub(crate) burst: u32,
    pub(crate) every: Duration,
}

impl Allowance {
    /// Room for `decisions` on one key.
    pub(crate) fn hot(decisions: usize) -> Allowance {
        Allowance { burst: to_burst(decisions), every: Duration::from_secs(1) }
    }

    /// Room for `decisions` over many keys, of which the most popular gets a tenth under Zipf.
    /// Tokens come back so slowly that a key stays in debt, hence alive, for the whole run, and
    /// a drained one stays drained.
    pub(crate) fn wide(decisions: usize) -> Allowance {
        Allowance { burst: to_burst(decisions / 8 + 1_000), every: Duration::from_secs(300) }
    }
}

fn to_burst(decisions: usize) -> u32 {
    u32::try_from(decisions).unwrap_or(u32::MAX).max(1)
}

/// Is this key out of tokens in the "90 % denied" scenario? Keys 2, 12, 22, … are not: that is
/// a tenth of uniform traffic, and as near to a tenth of Zipf traffic (rank = index) as ten
/// classes get.
pub(crate) fn is_drained(index: usize) -> bool {
    index % 10 != 2
}

/// What every key begins with.
pub(crate) const KEY_START: &str = "user:";

/// Spells key `index` into `out`: 16 to 31 bytes, as names of users tend to be.
pub(crate) fn spell(index: usize, out: &mut String) {
    use std::fmt::Write;
    const TAIL: &str = "@eu-west-1.shop";
    out.clear();
    write!(out, "{KEY_START}{index:011}").expect("writing to a string");
    out.push_str(&TAIL[..scatter(index as u64) as usize % (TAIL.len() + 1)]);
}

/// A kind of key: how to make the one with a given index.
pub(crate) trait Key: Send + Sync + 'static {
    fn of(index: usize) -> Self;
}

impl Key for String {
    fn of(index: usize) -> String {
        let mut key = String::with_capacity(31);
        spell(index, &mut key);
        key
    }
}

impl Key for u64 {
    fn of(index: usize) -> u64 {
        index as u64
    }
}

/// No key: the limiter has one state.
impl Key for () {
    fn of(_: usize) {}
}

/// The keys each thread asks for, in order.
///
/// Keys lie in memory in the order in which they are asked for. A server has just parsed its
/// key, so the key is warm and only the limiter's own memory is cold.
pub(crate) type Sequences<K> = Arc<[Vec<K>; THREADS]>;

/// Always the same key.
pub(crate) fn hot<K: Key>(decisions: usize) -> Sequences<K> {
    sequences(decisions, |_| 0)
}

/// Every one of `keys` as likely as any other.
pub(crate) fn uniform<K: Key>(keys: usize, decisions: usize) -> Sequences<K> {
    sequences(decisions, |random| ((u128::from(random) * keys as u128) >> 64) as usize)
}

/// The key of rank r with a likelihood proportional to r^-1.05.
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
        let draw = |step| K::of(index(scatter(seed.wrapping_add(step as u64))));
        (0..decisions).map(draw).collect()
    }))
}

/// SplitMix64: a number that looks random for each `n`, the same in every run.
pub(crate) fn scatter(n: u64) -> u64 {
    let mut z = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
