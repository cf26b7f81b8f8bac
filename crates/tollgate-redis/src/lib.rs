//! Shares the counters of tollgate through Redis or Valkey.
