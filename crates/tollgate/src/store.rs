//! The [`Store`] trait, and the calls that a store runs.
//!
//! A [`StoreCall`] is data: an action and its checks. A store runs it where its states are: in a
//! table of this process, in a Redis function or on another node. All stores return the same
//! verdicts (see [`testing::conformance`](crate::testing::conformance)). The store owns the clock.

use std::future::Future;

use tollgate_core::{Carry, Span, Time};

use crate::limit::Limit;
use crate::{Key, Reserve, StoreError, Verdicts};

/// Identifies a family of counters; a key has a separate counter in each family.
///
/// ```
/// use tollgate::CounterId;
/// assert_ne!(CounterId::new(0), CounterId::new(1));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CounterId(u64);

impl CounterId {
    /// Creates the id of that number.
    pub const fn new(number: u64) -> CounterId {
        CounterId(number)
    }

    /// Returns the number.
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// How strictly nodes that share a store enforce a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consistency {
    /// Every decision is made at the store.
    #[default]
    Strict,
    /// Nodes take chunks from the store and spend them locally: never over the limit, sometimes
    /// under.
    Leased,
    /// Nodes decide locally and synchronize their counts at intervals.
    Synced,
}

/// One limit applied to one key at one cost.
///
/// ```
/// use tollgate::{CounterId, Check, Limit};
/// let limit: Limit = "10/s".parse()?;
/// let check = Check::new(CounterId::new(0), "ann", &limit, 3);
/// assert_eq!((check.cost, check.lease), (3, 0));
/// # Ok::<(), tollgate::limit::ParseLimitError>(())
/// ```
///
/// A call may wait for one of its limits and not for another: the longest wait that a check
/// accepts is the shorter of its [`patience`](Check::patience) and the call's `max_wait`.
///
/// ```
/// use tollgate::{Action, CounterId, StoreCall, Check, Limit, MemoryStore, Span, Store};
/// let store = MemoryStore::new();
/// let (pace, quota): (Limit, Limit) = ("1/s".parse()?, "2/day".parse()?);
/// let checks = [
///     Check::new(CounterId::new(0), "ann", &pace, 1),
///     Check { patience: Span::ZERO, ..Check::new(CounterId::new(1), "ann", &quota, 1) },
/// ];
/// let call = StoreCall { action: Action::Take { max_wait: Span::from_secs(86_400) }, checks: &checks };
/// let mut allowed = || ready(store.run(call)).map(|verdicts| [0, 1].map(|i| verdicts[i].allowed));
/// assert_eq!(allowed()?, [true, true]);
/// assert_eq!(allowed()?, [true, true]); // a second from now
/// assert_eq!(allowed()?, [true, false]); // the quota would be a day's wait
/// # fn ready<T>(future: impl Future<Output = T>) -> T {
/// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// #     match std::pin::pin!(future).poll(&mut context) {
/// #         std::task::Poll::Ready(output) => output,
/// #         std::task::Poll::Pending => panic!("it waits"),
/// #     }
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Check<'a> {
    /// The family of counters.
    pub counter: CounterId,
    /// The key of the counter.
    pub key: Key<'a>,
    /// The limit.
    pub limit: &'a Limit,
    /// The amount to charge.
    pub cost: u64,
    /// Identifies the permit under a concurrency limit; unique among all permits.
    pub lease: u64,
    /// The longest wait that this check accepts, if that is shorter than the wait of its call.
    pub patience: Span,
    /// The amount that must be left after the charge; none for most checks.
    pub reserve: Reserve,
    /// The limit that this one has replaced, if the key may still have a counter under it.
    pub previous: Option<&'a PreviousLimit>,
    /// How strictly nodes that share the counter enforce it. A store of one node is always strict.
    pub consistency: Consistency,
    /// Whether the counter is stored apart from the other counters of its key.
    ///
    /// A store may group the counters of a key. Limits that come and go, such as inline limits,
    /// stay out of the group, so that its size has a bound.
    pub apart: bool,
    /// Whether checks with other limits use the same counter, as the calls of redis-cell do.
    ///
    /// Such a counter is the theoretical arrival time of its key, a point in time that every limit
    /// compares with its own burst. All its limits must be token buckets without options, with
    /// tokens of [whole nanoseconds](Limit::with_whole_nanoseconds).
    ///
    /// ```
    /// use tollgate::{Check, CounterId, Limit, MemoryStore};
    /// let slow = Limit::per_minute(1)?.burst(3)?.with_whole_nanoseconds();
    /// let fast = Limit::per_second(1)?.burst(3)?.with_whole_nanoseconds();
    /// let check = |limit| Check { limit_varies: true, ..Check::new(CounterId::new(0), "ann", limit, 1) };
    /// let store = MemoryStore::new();
    /// assert!(store.decide_one_now(&check(&slow)).allowed);
    /// // The arrival time is a minute ahead, and the faster limit tolerates three seconds.
    /// assert!(!store.decide_one_now(&check(&fast)).allowed);
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub limit_varies: bool,
}

impl<'a> Check<'a> {
    /// Creates a check of `cost` on a key's counter.
    pub fn new(
        counter: CounterId,
        key: impl Into<Key<'a>>,
        limit: &'a Limit,
        cost: u64,
    ) -> Check<'a> {
        Check {
            counter,
            key: key.into(),
            limit,
            cost,
            lease: 0,
            patience: Span::MAX,
            reserve: Reserve::None,
            previous: None,
            consistency: Consistency::Strict,
            apart: false,
            limit_varies: false,
        }
    }
}

impl Check<'_> {
    /// Returns whether this and another check have the same counter.
    ///
    /// ```
    /// use tollgate::{CounterId, Check, Limit};
    /// let limit: Limit = "10/s".parse()?;
    /// let check = |counter, cost| Check::new(CounterId::new(counter), "ann", &limit, cost);
    /// assert!(check(0, 1).is_same_counter(&check(0, 2)));
    /// assert!(!check(0, 1).is_same_counter(&check(1, 1)));
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    pub fn is_same_counter(&self, other: &Check<'_>) -> bool {
        (self.counter, self.key) == (other.counter, other.key)
    }
}

/// A limit that was replaced, and how its counters carry over to the next limit.
///
/// ```
/// use tollgate::{CounterId, Carry, Check, PreviousLimit, Limit, MemoryStore};
/// let (free, pro): (Limit, Limit) = ("10/day".parse()?, "100/day".parse()?);
/// let (free_counter, pro_counter) = (CounterId::new(0), CounterId::new(1));
/// let store = MemoryStore::new();
/// store.decide_one_now(&Check::new(free_counter, "ann", &free, 8));
///
/// let (carry, until) = (Carry::Additive, store.now());
/// let previous = PreviousLimit { counter: free_counter, limit: free, carry, until, previous: None };
/// let check = Check { previous: Some(&previous), ..Check::new(pro_counter, "ann", &pro, 1) };
/// assert_eq!(store.decide_one_now(&check).remaining, 91);
/// # Ok::<(), tollgate::limit::ParseLimitError>(())
/// ```
#[derive(Clone, Debug)]
pub struct PreviousLimit {
    /// The family of its counters.
    pub counter: CounterId,
    /// The replaced limit.
    pub limit: Limit,
    /// How its counters carry over.
    pub carry: Carry,
    /// When the limit was replaced. A time in the future means now.
    pub until: Time,
    /// The limit that this one had replaced.
    pub previous: Option<Box<PreviousLimit>>,
}

/// What a [`StoreCall`] does with its checks.
///
/// ```
/// use tollgate::{Action, CounterId, StoreCall, Check, Limit, MemoryStore, Store};
/// let store = MemoryStore::new();
/// let limit: Limit = "10/h".parse()?;
/// let checks = [Check::new(CounterId::new(0), "ann", &limit, 15)];
/// let spent = ready(store.run(StoreCall { action: Action::Spend, checks: &checks }))?;
/// assert!(!spent[0].allowed); // 5 are owed
/// ready(store.run(StoreCall { action: Action::Reset, checks: &checks }))?;
/// let peeked = ready(store.run(StoreCall { action: Action::Peek, checks: &checks }))?;
/// assert_eq!(peeked[0].remaining, 10);
/// # fn ready<T>(future: impl Future<Output = T>) -> T {
/// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// #     match std::pin::pin!(future).poll(&mut context) {
/// #         std::task::Poll::Ready(output) => output,
/// #         std::task::Poll::Pending => panic!("it waits"),
/// #     }
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Charges all checks if each of them allows it within `max_wait` and its own
    /// [`patience`](Check::patience); otherwise charges none.
    Take {
        /// The longest acceptable wait.
        max_wait: Span,
    },
    /// Returns the verdicts that [`Take`](Action::Take) would, and charges nothing.
    Try {
        /// The longest acceptable wait.
        max_wait: Span,
    },
    /// Returns the state of the limits, and charges nothing.
    Peek,
    /// Charges all checks unconditionally, into debt if need be.
    Spend,
    /// Refunds the cost, never above full. Under a concurrency limit, releases the permit.
    Refund,
    /// Releases the permit of a concurrency limit; an adaptive limit records how the request
    /// went. Charges on other limits stay.
    Release {
        /// How long the request took; zero if that is unknown because its client left early.
        rtt: Span,
        /// Whether the service that the limit protects has dropped the request.
        dropped: bool,
    },
    /// Restarts the lease of a concurrency limit's permit, unless it has expired. Changes nothing
    /// else.
    Renew,
    /// Removes the counters, so that the keys are full again.
    Reset,
}

/// A request to a store: an action and its checks.
///
/// ```
/// use tollgate::{Action, CounterId, StoreCall, Check, Limit, Span};
/// let limit: Limit = "10/s".parse()?;
/// let checks = [Check::new(CounterId::new(0), "ann", &limit, 1)];
/// // Passes within a second, or is refused:
/// let call = StoreCall { action: Action::Take { max_wait: Span::from_secs(1) }, checks: &checks };
/// # Ok::<(), tollgate::limit::ParseLimitError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct StoreCall<'a> {
    /// The action.
    pub action: Action,
    /// The checks that the action applies to.
    pub checks: &'a [Check<'a>],
}

/// A command on the short texts that the nodes of a store share, such as bans.
#[derive(Clone, Copy, Debug)]
pub enum SharedText<'a> {
    /// Stores a text, or extends its lifetime.
    Keep {
        /// The text.
        text: &'a [u8],
        /// When the text expires, as a [date](crate::Clock::date).
        until: Time,
    },
    /// Removes texts.
    Drop {
        /// The texts to remove.
        texts: &'a [&'a [u8]],
    },
    /// Returns all texts.
    All,
}

/// Shared texts, each with the [date](crate::Clock::date) at which it expires.
pub type SharedTexts = Vec<(Box<[u8]>, Time)>;

/// The storage of states, and where requests are decided.
///
/// ```
/// use tollgate::{Action, CounterId, StoreCall, Check, Limit, MemoryStore, Span, Store};
///
/// # futures_lite(async {
/// let store = MemoryStore::new();
/// let (second, minute): (Limit, Limit) = ("2/s".parse().unwrap(), "100/min".parse().unwrap());
/// let checks = [
///     Check::new(CounterId::new(0), "ann", &second, 1),
///     Check::new(CounterId::new(1), "ann", &minute, 1),
/// ];
/// let verdicts = store.decide(&checks).await.unwrap();
/// assert!(verdicts.iter().all(|verdict| verdict.allowed));
/// assert_eq!(verdicts[1].remaining, 99);
/// # });
/// # fn futures_lite(future: impl Future<Output = ()>) {
/// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// #     assert!(std::pin::pin!(future).poll(&mut context).is_ready());
/// # }
/// ```
pub trait Store: Send + Sync {
    /// Runs a call and returns one verdict for each check, in order.
    fn run(&self, call: StoreCall<'_>)
    -> impl Future<Output = Result<Verdicts, StoreError>> + Send;

    /// Runs a call if `current` returns true once its counters are locked; otherwise returns `None`.
    ///
    /// So a request under replaced rules cannot charge counters that were carried over to new
    /// ones. A store without locks evaluates `current` just before the call.
    fn run_while(
        &self,
        call: StoreCall<'_>,
        current: impl Fn() -> bool + Send,
    ) -> impl Future<Output = Result<Option<Verdicts>, StoreError>> + Send {
        async move {
            match current() {
                true => self.run(call).await.map(Some),
                false => Ok(None),
            }
        }
    }

    /// Returns how many nodes share the counters, including this one, as far as is known.
    fn nodes(&self) -> u64 {
        1
    }

    /// Returns whether other processes share the counters, so that all need the same ids for them.
    fn is_shared(&self) -> bool {
        false
    }

    /// Stores, removes or reads texts that all nodes of the store share.
    ///
    /// Their number is limited: those that expire first are dropped first. Returns `None` if the
    /// store is not shared; the caller then keeps its texts itself.
    fn share_text(
        &self,
        text: SharedText<'_>,
    ) -> impl Future<Output = Result<Option<SharedTexts>, StoreError>> + Send {
        let _ = text;
        async { Ok(None) }
    }

    /// Charges all checks if each of them allows it, and none otherwise.
    fn decide(
        &self,
        checks: &[Check<'_>],
    ) -> impl Future<Output = Result<Verdicts, StoreError>> + Send {
        self.run(StoreCall { action: Action::Take { max_wait: Span::ZERO }, checks })
    }
}
