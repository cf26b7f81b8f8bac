//! Calls the fuzz target `snapshot` with arbitrary bytes; it is beside the parser that it checks.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tollgate::fuzz_targets::snapshot(bytes));
