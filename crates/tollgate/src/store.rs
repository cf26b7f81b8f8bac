//! What a store is: the place where states live and requests are decided.
//!
//! A [`Call`] is data: an action and the checks it is about. Any store can run it where its
//! states are, be that a table in this process, a script in Redis or another node, and every
//! store must answer the same (see [`testing::conformance`](crate::testing::conformance)). The
//! store owns the clock.

use std::future::Future;

use tollgate_core::{Carry, Span, Time};

use crate::limit::Limit;
use crate::{Key, Reserve, StoreError, Verdicts};

/// Which family of counters a key is looked up in: the same key in two buckets is two counters.
///
/// ```
/// use tollgate::Bucket;
/// assert_ne!(Bucket::new(0), Bucket::new(1));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bucket(u64);

impl Bucket {
    /// The bucket with that number.
    pub const fn new(number: u64) -> Bucket {
        Bucket(number)
    }

    /// Its number.
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// How closely nodes that share a store keep a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consistency {
    /// Every decision is made at the store.
    #[default]
    Strict,
    /// Chunks are taken from the store and spent locally: never over, sometimes under.
    Leased,
    /// Local decisions, reconciled at intervals.
    Synced,
}

/// One limit on one key, and what is asked of it.
///
/// ```
/// use tollgate::{Bucket, Check, Limit};
/// let limit: Limit = "10/s".parse()?;
/// let check = Check::new(Bucket::new(0), "ann", &limit, 3);
/// assert_eq!((check.cost, check.lease), (3, 0));
/// # Ok::<(), tollgate::limit::ParseLimitError>(())
/// ```
///
/// A call may ask one limit for a place in line and another to let it pass at once: the wait
/// each check accepts is the shorter of its own [`patience`](Check::patience) and the call's.
///
/// ```
/// use tollgate::{Action, Bucket, Call, Check, Limit, MemoryStore, Span, Store};
/// let store = MemoryStore::new();
/// let (pace, quota): (Limit, Limit) = ("1/s".parse()?, "2/day".parse()?);
/// let checks = [
///     Check::new(Bucket::new(0), "ann", &pace, 1),
///     Check { patience: Span::ZERO, ..Check::new(Bucket::new(1), "ann", &quota, 1) },
/// ];
/// let call = Call { action: Action::Take { max_wait: Span::from_secs(86_400) }, checks: &checks };
/// let mut allowed = || ready(store.run(call)).map(|verdicts| [0, 1].map(|i| verdicts[i].allowed));
/// assert_eq!(allowed()?, [true, true]);
/// assert_eq!(allowed()?, [true, true]); // a second from now
/// assert_eq!(allowed()?, [true, false]); // nobody is to wait until tomorrow
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
    pub bucket: Bucket,
    /// Whose counter.
    pub key: Key<'a>,
    /// The limit it must keep.
    pub limit: &'a Limit,
    /// How much is asked for.
    pub cost: u64,
    /// Names the holder where the limit is on concurrency; unique among all holders.
    pub lease: u64,
    /// The furthest place in line this check may take, whatever its call accepts for the others.
    pub patience: Span,
    /// What must be left for it to pass: nothing, for most.
    pub reserve: Reserve,
    /// Where the counter was kept before the limit was changed, if it may still be there.
    pub former: Option<&'a Former>,
    /// How closely nodes that share the counter must agree. A store of one node is always strict.
    pub consistency: Consistency,
    /// Whether a store that keeps the counters of a key together keeps this one apart: for limits
    /// that come and go, so that what is kept of a key has a bound.
    pub apart: bool,
}

impl<'a> Check<'a> {
    /// A check of `cost` on a key's counter.
    pub fn new(bucket: Bucket, key: impl Into<Key<'a>>, limit: &'a Limit, cost: u64) -> Check<'a> {
        Check {
            bucket,
            key: key.into(),
            limit,
            cost,
            lease: 0,
            patience: Span::MAX,
            reserve: Reserve::None,
            former: None,
            consistency: Consistency::Strict,
            apart: false,
        }
    }
}

impl Check<'_> {
    /// Whether this and another check are about the same counter.
    ///
    /// ```
    /// use tollgate::{Bucket, Check, Limit};
    /// let limit: Limit = "10/s".parse()?;
    /// let check = |bucket, cost| Check::new(Bucket::new(bucket), "ann", &limit, cost);
    /// assert!(check(0, 1).is_about_the_same_as(&check(0, 2)));
    /// assert!(!check(0, 1).is_about_the_same_as(&check(1, 1)));
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    pub fn is_about_the_same_as(&self, other: &Check<'_>) -> bool {
        (self.bucket, self.key) == (other.bucket, other.key)
    }
}

/// A limit that was replaced, and how its counters carry over to the one that came after it.
///
/// ```
/// use tollgate::{Bucket, Carry, Check, Former, Limit, MemoryStore};
/// let (free, pro): (Limit, Limit) = ("10/day".parse()?, "100/day".parse()?);
/// let (free_bucket, pro_bucket) = (Bucket::new(0), Bucket::new(1));
/// let store = MemoryStore::new();
/// store.decide_one(&Check::new(free_bucket, "ann", &free, 8));
///
/// let (carry, until) = (Carry::Additive, store.now());
/// let former = Former { bucket: free_bucket, limit: free, carry, until, former: None };
/// let check = Check { former: Some(&former), ..Check::new(pro_bucket, "ann", &pro, 1) };
/// assert_eq!(store.decide_one(&check).remaining, 91);
/// # Ok::<(), tollgate::limit::ParseLimitError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Former {
    /// The bucket its counters are in.
    pub bucket: Bucket,
    /// The limit they were kept for.
    pub limit: Limit,
    /// How they carry over.
    pub carry: Carry,
    /// When the limit was replaced. A moment yet to come means now.
    pub until: Time,
    /// The one before it.
    pub former: Option<Box<Former>>,
}

/// What to do with the checks of a [`Call`].
///
/// ```
/// use tollgate::{Action, Bucket, Call, Check, Limit, MemoryStore, Store};
/// let store = MemoryStore::new();
/// let limit: Limit = "10/h".parse()?;
/// let checks = [Check::new(Bucket::new(0), "ann", &limit, 15)];
/// let spent = ready(store.run(Call { action: Action::Spend, checks: &checks }))?;
/// assert!(!spent[0].allowed); // 5 are owed
/// ready(store.run(Call { action: Action::Reset, checks: &checks }))?;
/// let peeked = ready(store.run(Call { action: Action::Peek, checks: &checks }))?;
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
    /// Charge them all if each allows it, with a place in line no further away than `max_wait`
    /// and the check's own [`patience`](Check::patience); otherwise charge none.
    Take {
        /// The longest wait that is acceptable.
        max_wait: Span,
    },
    /// Say what taking them would be answered, and keep nothing.
    Try {
        /// The longest wait that is acceptable.
        max_wait: Span,
    },
    /// Say how they stand.
    Peek,
    /// Charge them without asking: what was spent was spent.
    Spend,
    /// Give back, never above full. A holder of a concurrency limit gives up its place.
    Refund,
    /// A holder is done: its place on a concurrency limit is free again, and one that adapts
    /// learns from how it went. What was spent on other limits stays spent.
    Release {
        /// How long it took; zero if that says nothing, because whoever asked left before.
        rtt: Span,
        /// Whether it was dropped by what the limit protects.
        dropped: bool,
    },
    /// A holder is still at work: its lease on a concurrency limit starts anew, if it has not run
    /// out. Changes nothing else.
    Renew,
    /// Forget what was spent.
    Reset,
}

/// A request as data.
///
/// ```
/// use tollgate::{Action, Bucket, Call, Check, Limit, Span};
/// let limit: Limit = "10/s".parse()?;
/// let checks = [Check::new(Bucket::new(0), "ann", &limit, 1)];
/// // A place in line within a second, or a refusal:
/// let call = Call { action: Action::Take { max_wait: Span::from_secs(1) }, checks: &checks };
/// # Ok::<(), tollgate::limit::ParseLimitError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// What to do.
    pub action: Action,
    /// On what.
    pub checks: &'a [Check<'a>],
}

/// A short text that all who share a store can read, for a time: what counters cannot say.
#[derive(Clone, Copy, Debug)]
pub enum Note<'a> {
    /// Keeps a text, or keeps it for longer.
    Keep {
        /// The text.
        text: &'a [u8],
        /// Until when.
        until: Time,
    },
    /// Forgets texts.
    Drop {
        /// Which ones.
        texts: &'a [&'a [u8]],
    },
    /// Asks for all texts there are.
    All,
}

/// Texts, and until when each is kept.
pub type Notes = Vec<(Box<[u8]>, Time)>;

/// Where states live and requests are decided.
///
/// ```
/// use tollgate::{Action, Bucket, Call, Check, Limit, MemoryStore, Span, Store};
///
/// # futures_lite(async {
/// let store = MemoryStore::new();
/// let (second, minute): (Limit, Limit) = ("2/s".parse().unwrap(), "100/min".parse().unwrap());
/// let checks = [
///     Check::new(Bucket::new(0), "ann", &second, 1),
///     Check::new(Bucket::new(1), "ann", &minute, 1),
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
    /// Runs a call: one verdict for each check, in order.
    fn run(&self, call: Call<'_>) -> impl Future<Output = Result<Verdicts, StoreError>> + Send;

    /// Runs a call if `current` still holds once nobody else can change what it is about; `None`
    /// if not. Keeps a request under old rules from charging counters that new rules have carried
    /// over. A store that cannot hold counters asks right before.
    fn run_while(
        &self,
        call: Call<'_>,
        current: impl Fn() -> bool + Send,
    ) -> impl Future<Output = Result<Option<Verdicts>, StoreError>> + Send {
        async move {
            match current() {
                true => self.run(call).await.map(Some),
                false => Ok(None),
            }
        }
    }

    /// How many nodes share the counters, this one included, as far as is known.
    fn nodes(&self) -> u64 {
        1
    }

    /// Whether other processes count here as well, so that buckets need names all of them know.
    fn is_shared(&self) -> bool {
        false
    }

    /// Keeps, forgets or reads texts that all who share the store can read: only so many are kept,
    /// those that end first give way. `None` if nobody shares it: whoever has something to note
    /// keeps it himself.
    fn note(
        &self,
        note: Note<'_>,
    ) -> impl Future<Output = Result<Option<Notes>, StoreError>> + Send {
        let _ = note;
        async { Ok(None) }
    }

    /// Charges all checks, or none.
    fn decide(
        &self,
        checks: &[Check<'_>],
    ) -> impl Future<Output = Result<Verdicts, StoreError>> + Send {
        self.run(Call { action: Action::Take { max_wait: Span::ZERO }, checks })
    }
}
