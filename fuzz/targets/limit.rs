//! Calls the fuzz target `limit` with arbitrary bytes; it is beside the parser that it checks.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tollgate::fuzz_targets::limit(bytes));
