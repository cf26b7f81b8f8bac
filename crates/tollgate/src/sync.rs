//! Atomics and locks, replaced by those of the model checker Shuttle with `--cfg shuttle`.
//!
//! Shuttle may switch threads at every atomic operation, so that its tests cover interleavings that
//! a stress test would not meet.

#[cfg(not(shuttle))]
mod imp {
    pub use parking_lot::RwLock;
    pub use parking_lot::{Mutex, MutexGuard};
    pub use std::hint::spin_loop;
    pub use std::sync::atomic::AtomicUsize;
    pub use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    pub use std::thread::yield_now;

    /// Allocates `n` words of zero.
    ///
    /// The system provides the pages as they are first touched, so even a large allocation returns
    /// at once.
    pub fn zeroed(n: usize) -> Box<[AtomicU64]> {
        bytemuck::zeroed_slice_box(n)
    }
}

#[cfg(shuttle)]
mod imp {
    pub use shuttle::hint::spin_loop;
    pub use shuttle::sync::atomic::AtomicUsize;
    pub use shuttle::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    pub use shuttle::thread::yield_now;

    /// Allocates `n` words of zero.
    pub fn zeroed(n: usize) -> Box<[AtomicU64]> {
        (0..n).map(|_| AtomicU64::new(0)).collect()
    }

    /// Shuttle's mutex with the signature of parking_lot's.
    #[derive(Debug, Default)]
    pub struct Mutex<T>(shuttle::sync::Mutex<T>);
    pub type MutexGuard<'a, T> = shuttle::sync::MutexGuard<'a, T>;

    impl<T> Mutex<T> {
        pub fn new(value: T) -> Mutex<T> {
            Mutex(shuttle::sync::Mutex::new(value))
        }

        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
        }
    }

    /// Shuttle's read-write lock with the signature of parking_lot's.
    #[derive(Debug, Default)]
    pub struct RwLock<T>(shuttle::sync::RwLock<T>);
    impl<T> RwLock<T> {
        pub fn read(&self) -> shuttle::sync::RwLockReadGuard<'_, T> {
            self.0.read().unwrap_or_else(|poisoned| poisoned.into_inner())
        }

        pub fn write(&self) -> shuttle::sync::RwLockWriteGuard<'_, T> {
            self.0.write().unwrap_or_else(|poisoned| poisoned.into_inner())
        }
    }
}

pub use imp::*;
