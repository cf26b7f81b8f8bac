//! Calls the fuzz target `redis_counter` with arbitrary bytes; it is beside the parser that it checks.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tollgate_redis::fuzz_targets::redis_counter(bytes));
