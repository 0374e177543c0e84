//! Locks that a panic elsewhere does not close for ever.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The lock, also after a panic of whoever held it. For what is right after every single statement, or put right by the
/// next listing: a Store, a counter, a memory of what was seen.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
