//! The atomics and locks of the concurrent part, exchangeable for Shuttle's.
//!
//! Built with `--cfg shuttle`, every atomic step becomes a point at which the model checker may
//! switch threads, so that tests walk through interleavings no stress test would meet.

#[cfg(not(shuttle))]
mod imp {
    #[cfg(feature = "rules")]
    pub(crate) use parking_lot::RwLock;
    pub(crate) use parking_lot::{Mutex, MutexGuard};
    pub(crate) use std::hint::spin_loop;
    #[cfg(feature = "rules")]
    pub(crate) use std::sync::atomic::AtomicUsize;
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    pub(crate) use std::thread::yield_now;

    /// `n` words of zero. The pages come from the system as they are first touched, so even a
    /// large allocation returns at once.
    pub(crate) fn zeroed(n: usize) -> Box<[AtomicU64]> {
        bytemuck::zeroed_slice_box(n)
    }
}

#[cfg(shuttle)]
mod imp {
    pub(crate) use shuttle::hint::spin_loop;
    #[cfg(feature = "rules")]
    pub(crate) use shuttle::sync::atomic::AtomicUsize;
    pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    pub(crate) use shuttle::thread::yield_now;

    pub(crate) fn zeroed(n: usize) -> Box<[AtomicU64]> {
        (0..n).map(|_| AtomicU64::new(0)).collect()
    }

    /// Shuttle's mutex with the signature of parking_lot's.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);
    pub(crate) type MutexGuard<'a, T> = shuttle::sync::MutexGuard<'a, T>;

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Mutex<T> {
            Mutex(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
        }
    }

    /// The same of its lock for many readers.
    #[cfg(feature = "rules")]
    #[derive(Debug, Default)]
    pub(crate) struct RwLock<T>(shuttle::sync::RwLock<T>);

    #[cfg(feature = "rules")]
    impl<T> RwLock<T> {
        pub(crate) fn read(&self) -> shuttle::sync::RwLockReadGuard<'_, T> {
            self.0.read().unwrap_or_else(|poisoned| poisoned.into_inner())
        }

        pub(crate) fn write(&self) -> shuttle::sync::RwLockWriteGuard<'_, T> {
            self.0.write().unwrap_or_else(|poisoned| poisoned.into_inner())
        }
    }
}

pub(crate) use imp::*;
