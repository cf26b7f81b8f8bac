//! What must be left for a request to pass.

/// What must be left once a request is charged, for it to pass: kept for others, who ask for less to
/// be left or for nothing.
///
/// ```
/// use tollgate::{Bucket, Check, Limit, MemoryStore, Reserve};
/// let (store, limit): (_, Limit) = (MemoryStore::new(), "10/h".parse()?);
/// let check = Check::new(Bucket::new(0), "all", &limit, 1);
/// let batch = Check { reserve: Reserve::Percent(20), ..check };
/// assert!((0..8).all(|_| store.decide_one(&batch).allowed));
/// assert!(!store.decide_one(&batch).allowed); // two are kept
/// assert!(store.decide_one(&check).allowed);
/// # Ok::<(), tollgate::limit::ParseLimitError>(())
/// ```
///
/// Judging is as if the request cost that much more; what is charged is its cost alone. Of a limit on
/// concurrency that many places stay free. An allowed verdict reports how the limit stands; a refused
/// one when the request would pass and leave its reserve. Who has to leave something has no line to
/// wait in: it passes now, or not.
///
/// No more is asked to be left than a full limit has beside the request, so that a request which the
/// limit can hold passes at the latest when nothing is spent. A limit that has nothing to keep (one
/// that warms up, or holds a single token) therefore keeps nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reserve {
    /// Nothing: it may use everything.
    #[default]
    None,
    /// So much.
    Amount(u64),
    /// A share of what the limit holds, as it is now: that of an adaptive limit moves with it. Rounded
    /// up, so that a share of a small limit is not nothing.
    Percent(u8),
}

impl Reserve {
    /// Whether nothing has to be left.
    #[inline]
    pub fn is_none(self) -> bool {
        self == Reserve::None
    }

    /// The part of it that one of so many nodes leaves, each of its part of the limit.
    #[cfg(feature = "rules")]
    pub(crate) fn shared_by(self, nodes: u64) -> Reserve {
        match self {
            Reserve::Amount(amount) => Reserve::Amount(amount.div_ceil(nodes.max(1))),
            other => other,
        }
    }

    /// How much that is of a limit that holds `capacity`.
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
                // No more than the capacity.
                share.div_ceil(100) as u64
            }
        }
    }
}
