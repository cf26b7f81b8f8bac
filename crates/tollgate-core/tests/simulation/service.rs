//! The service behind the limit: workers and a bounded queue of its own.

use std::collections::{BinaryHeap, VecDeque};

use super::scenario::{Conditions, ServiceDiscipline};

/// A request that the limit admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Job {
    pub(crate) began_ns: u64,
    /// The work of the request.
    pub(crate) work_ns: u64,
    /// The excess of its kind over the mean of all requests.
    pub(crate) excess_ns: i64,
}

/// The state of the simulated service.
pub(crate) struct Service {
    discipline: ServiceDiscipline,
    /// Jobs in the queue, served in order.
    waiting: VecDeque<Job>,
    busy: u64,
    /// Jobs served concurrently, by the work that each will have received when it is done.
    shared: BinaryHeap<std::cmp::Reverse<(u64, Job)>>,
    received_ns: u64,
    at_ns: u64,
}

impl Service {
    pub(crate) fn new(discipline: ServiceDiscipline) -> Service {
        let (waiting, shared) = (VecDeque::new(), BinaryHeap::new());
        Service { discipline, waiting, busy: 0, shared, received_ns: 0, at_ns: 0 }
    }

    /// Accepts a job, or returns false if the queue is full.
    pub(crate) fn take(&mut self, conditions: &Conditions, now_ns: u64, job: Job) -> bool {
        self.work_until(conditions, now_ns);
        let capacity = conditions.servers as usize + conditions.queue;
        match self.discipline {
            ServiceDiscipline::Fifo if self.busy as usize + self.waiting.len() >= capacity => {
                return false;
            }
            ServiceDiscipline::Shared if self.shared.len() >= capacity => return false,
            ServiceDiscipline::Fifo => self.waiting.push_back(job),
            ServiceDiscipline::Shared => {
                self.shared.push(std::cmp::Reverse((self.received_ns + job.work_ns, job)));
            }
        }
        true
    }

    /// Starts the next job if a worker is free, when jobs are served in order.
    pub(crate) fn begin(&mut self, conditions: &Conditions) -> Option<Job> {
        if self.busy >= conditions.servers as u64 {
            return None;
        }
        let job = self.waiting.pop_front()?;
        self.busy += 1;
        Some(job)
    }

    /// Frees the worker of a finished job.
    pub(crate) fn done(&mut self) {
        self.busy -= 1;
    }

    /// Returns when the next concurrent job is done, if nothing changes.
    pub(crate) fn next_ns(&self, conditions: &Conditions) -> Option<u64> {
        let std::cmp::Reverse((at, _)) = self.shared.peek()?;
        let rest = at.saturating_sub(self.received_ns) as f64 * self.slowness(conditions);
        Some(self.at_ns + rest.ceil() as u64)
    }

    /// Removes and returns a concurrent job that is done.
    pub(crate) fn finished(&mut self, conditions: &Conditions, now_ns: u64) -> Option<Job> {
        self.work_until(conditions, now_ns);
        let std::cmp::Reverse((at, _)) = self.shared.peek()?;
        let is_done = *at <= self.received_ns + 1;
        if is_done { self.shared.pop().map(|std::cmp::Reverse((_, job))| job) } else { None }
    }

    fn slowness(&self, conditions: &Conditions) -> f64 {
        (self.shared.len() as f64 / conditions.servers).max(1.0)
    }

    fn work_until(&mut self, conditions: &Conditions, now_ns: u64) {
        let worked = now_ns.saturating_sub(self.at_ns) as f64 / self.slowness(conditions);
        self.received_ns += worked.round() as u64;
        self.at_ns = now_ns;
    }
}
