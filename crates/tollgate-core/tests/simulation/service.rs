//! The service behind the limit: places, a queue of its own, and an end to its patience.

use std::collections::{BinaryHeap, VecDeque};

use super::world::{Order, World};

/// A request that was let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Job {
    pub(crate) began_ns: u64,
    /// How much work it is.
    pub(crate) work_ns: u64,
    /// How much more one of its kind is than the mean of all.
    pub(crate) beyond_ns: i64,
}

/// What a service has to do.
pub(crate) struct Service {
    order: Order,
    /// Served one by one.
    waiting: VecDeque<Job>,
    busy: u64,
    /// Served together: by how much work each has had when it is done, the least first.
    shared: BinaryHeap<std::cmp::Reverse<(u64, Job)>>,
    had_ns: u64,
    at_ns: u64,
}

impl Service {
    pub(crate) fn new(order: Order) -> Service {
        let (waiting, shared) = (VecDeque::new(), BinaryHeap::new());
        Service { order, waiting, busy: 0, shared, had_ns: 0, at_ns: 0 }
    }

    /// Takes a job, or drops it because too many wait.
    pub(crate) fn take(&mut self, world: &World, now_ns: u64, job: Job) -> bool {
        self.work_until(world, now_ns);
        let room = world.servers as usize + world.queue;
        match self.order {
            Order::Fifo if self.busy as usize + self.waiting.len() >= room => return false,
            Order::Shared if self.shared.len() >= room => return false,
            Order::Fifo => self.waiting.push_back(job),
            Order::Shared => {
                self.shared.push(std::cmp::Reverse((self.had_ns + job.work_ns, job)));
            }
        }
        true
    }

    /// The next job that can be begun right now, where they are served one by one.
    pub(crate) fn begin(&mut self, world: &World) -> Option<Job> {
        if self.busy >= world.servers as u64 {
            return None;
        }
        let job = self.waiting.pop_front()?;
        self.busy += 1;
        Some(job)
    }

    /// A job that was begun is done.
    pub(crate) fn done(&mut self) {
        self.busy -= 1;
    }

    /// When the next of those served together is done, if nothing changes.
    pub(crate) fn next_ns(&self, world: &World) -> Option<u64> {
        let std::cmp::Reverse((at, _)) = self.shared.peek()?;
        let rest = at.saturating_sub(self.had_ns) as f64 * self.slowness(world);
        Some(self.at_ns + rest.ceil() as u64)
    }

    /// One of those served together that is done.
    pub(crate) fn finished(&mut self, world: &World, now_ns: u64) -> Option<Job> {
        self.work_until(world, now_ns);
        let std::cmp::Reverse((at, _)) = self.shared.peek()?;
        let is_done = *at <= self.had_ns + 1;
        if is_done { self.shared.pop().map(|std::cmp::Reverse((_, job))| job) } else { None }
    }

    fn slowness(&self, world: &World) -> f64 {
        (self.shared.len() as f64 / world.servers).max(1.0)
    }

    fn work_until(&mut self, world: &World, now_ns: u64) {
        let worked = now_ns.saturating_sub(self.at_ns) as f64 / self.slowness(world);
        self.had_ns += worked.round() as u64;
        self.at_ns = now_ns;
    }
}
