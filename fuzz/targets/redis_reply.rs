#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tollgate_redis::fuzz_targets::redis_reply(bytes));
