//! Calls the fuzz target `redis_reply` with arbitrary bytes; it is beside the parser that it checks.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tollgate_redis::fuzz_targets::redis_reply(bytes));
