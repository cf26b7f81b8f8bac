//! The memory that the state of a key takes on the heap.

use super::State;

/// The bytes that an allocator adds to an allocation.
pub(crate) const ALLOCATION_OVERHEAD: u64 = 16;

impl State {
    /// Returns the bytes that the state takes on the heap, unused capacity included.
    #[inline]
    pub(crate) fn heap_bytes(&self) -> u64 {
        match self {
            State::SlidingSlots(state) | State::SlidingLog(state) => {
                boxed(size_of_val(&**state), state.heap_bytes())
            }
            State::Leases(leases) => boxed(size_of_val(&**leases), leases.heap_bytes()),
            State::Adaptive(state) => boxed(size_of_val(&**state), state.leases.heap_bytes()),
            State::Meter(_)
            | State::FixedWindow(_)
            | State::SlidingWindow(_)
            | State::WarmUp(_)
            | State::Nothing => 0,
        }
    }
}

/// Returns the bytes of a box and of the entries that it points to.
fn boxed(size: usize, entries: usize) -> u64 {
    let entries = if entries == 0 { 0 } else { entries as u64 + ALLOCATION_OVERHEAD };
    size as u64 + ALLOCATION_OVERHEAD + entries
}
