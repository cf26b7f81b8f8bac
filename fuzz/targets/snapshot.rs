#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tollgate::fuzz_targets::snapshot(bytes));
