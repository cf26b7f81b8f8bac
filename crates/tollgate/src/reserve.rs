//! Reserves: what a request must leave of a limit.

/// The amount that must be left of a limit after a request is charged.
///
/// The amount is reserved for requests with a smaller reserve or none.
///
/// ```
/// use tollgate::{CounterId, Check, Limit, MemoryStore, Reserve};
/// let (store, limit): (_, Limit) = (MemoryStore::new(), "10/h".parse()?);
/// let check = Check::new(CounterId::new(0), "all", &limit, 1);
/// let batch = Check { reserve: Reserve::Percent(20), ..check };
/// assert!((0..8).all(|_| store.decide_one_now(&batch).allowed));
/// assert!(!store.decide_one_now(&batch).allowed); // two are reserved
/// assert!(store.decide_one_now(&check).allowed);
/// # Ok::<(), tollgate::limit::ParseLimitError>(())
/// ```
///
/// A request is judged as if it cost that much more, and charged its cost alone. Of a concurrency
/// limit, that many permits stay free. An allowed verdict reports the state of the limit; a refused
/// one reports when the request would pass and leave its reserve. A request with a reserve is never
/// queued: it passes at once, or is refused.
///
/// The reserve is at most what a full limit has left beside the request, so that a request which the
/// limit can hold passes at the latest when the limit is full. A limit with nothing to spare (one
/// that warms up, or holds a single token) therefore has no reserve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reserve {
    /// No reserve: the request may use everything.
    #[default]
    None,
    /// A fixed amount.
    Amount(u64),
    /// A percentage of what the limit holds, rounded up.
    ///
    /// The reserve of an adaptive limit follows its current level.
    Percent(u8),
}

impl Reserve {
    /// Returns whether there is no reserve.
    #[inline]
    pub fn is_none(self) -> bool {
        self == Reserve::None
    }

    /// Returns the reserve of one of `nodes` that share the limit equally.
    pub fn shared_by(self, nodes: u64) -> Reserve {
        match self {
            Reserve::Amount(amount) => Reserve::Amount(amount.div_ceil(nodes.max(1))),
            other => other,
        }
    }

    /// Returns the amount to reserve of a limit that holds `capacity`.
    ///
    /// ```
    /// use tollgate::Reserve;
    /// assert_eq!(Reserve::Percent(20).amount(11), 3);
    /// assert_eq!(Reserve::Amount(7).amount(11), 7);
    /// ```
    pub fn amount(self, capacity: u64) -> u64 {
        match self {
            Reserve::None => 0,
            Reserve::Amount(amount) => amount,
            Reserve::Percent(percent) => {
                let share = u128::from(capacity) * u128::from(percent.min(100));
                // The share is at most the capacity, so the cast is lossless.
                share.div_ceil(100) as u64
            }
        }
    }
}
