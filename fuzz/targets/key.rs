//! Calls the fuzz target `key` with arbitrary bytes; it is beside the parser that it checks.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tollgate_rules::fuzz_targets::key(bytes));
