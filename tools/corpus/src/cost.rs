//! The cost of work on one input: CPU time and memory.

use std::alloc::System;
use std::time::Duration;

use peakmem_alloc::{PeakMemAlloc, PeakMemAllocTrait};
use rustix::time::{ClockId, clock_gettime};

/// The maximum CPU time of one input, without optimisation.
const MAX_TIME: Duration = Duration::from_secs(5);
/// The maximum of memory in use at once, for each byte of an input.
const MAX_BYTES_PER_BYTE: u64 = 4 << 10;
/// The growth that is always allowed, because small figures vary.
const FREE_TIME: Duration = Duration::from_millis(20);
const FREE_BYTES: u64 = 1 << 20;

/// The allocator of every test binary that replays a corpus.
///
/// The allocator leaves zeroed memory to the system, as the memory store needs: filling its tables would take
/// tests of snapshots minutes.
#[global_allocator]
static ALLOCATOR: PeakMemAlloc<System> = PeakMemAlloc::system();

/// Whether this process runs one test alone, as under nextest; its memory is that of the test.
fn is_alone() -> bool {
    std::env::var_os("NEXTEST_EXECUTION_MODE").is_some_and(|mode| mode == "process-per-test")
}

/// Runs work, and returns the maximum of memory that the process used at once for it, in bytes.
pub fn peak_bytes(work: impl FnOnce()) -> u64 {
    ALLOCATOR.reset_peak_memory();
    work();
    ALLOCATOR.get_peak_memory() as u64
}

/// What work cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    cpu_time: Duration,
    /// The maximum of memory in use at once, in bytes; 0 if other tests run in the process.
    peak_bytes: u64,
}

/// Measures the cost of work on this thread.
pub(crate) fn measure(work: impl FnOnce()) -> Cost {
    let before = thread_time();
    let peak_bytes = peak_bytes(work);
    Cost {
        cpu_time: thread_time().saturating_sub(before),
        peak_bytes: if is_alone() { peak_bytes } else { 0 },
    }
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

impl Cost {
    /// Returns how the cost of an input exceeds its bounds; `free_bytes` are those of the target itself.
    pub(crate) fn excess(&self, length: usize, free_bytes: u64) -> Option<String> {
        let max_bytes = free_bytes + MAX_BYTES_PER_BYTE * length as u64;
        if self.peak_bytes > max_bytes {
            let Cost { peak_bytes, .. } = self;
            return Some(format!(
                "{length} bytes took {peak_bytes} bytes of memory at once; at most {max_bytes} are \
                 allowed"
            ));
        }
        (self.cpu_time > MAX_TIME).then(|| {
            let Cost { cpu_time, .. } = self;
            format!("{length} bytes took {cpu_time:?} of CPU time; at most {MAX_TIME:?} is allowed")
        })
    }

    /// Returns how the cost has grown by more than a factor since that of a shorter input.
    pub(crate) fn growth_excess(&self, short: &Cost, factor: u32) -> Option<String> {
        let max_bytes = short.peak_bytes * u64::from(factor) + FREE_BYTES;
        if self.peak_bytes > max_bytes {
            let (from, to) = (short.peak_bytes, self.peak_bytes);
            return Some(format!(
                "16 times the input took {to} bytes at once instead of {from}: more than linear"
            ));
        }
        (self.cpu_time > short.cpu_time * factor + FREE_TIME).then(|| {
            let (from, to) = (short.cpu_time, self.cpu_time);
            format!(
                "16 times the input took {to:?} of CPU time instead of {from:?}: more than linear"
            )
        })
    }
}
