//! Calls the fuzz target `bundle` with arbitrary bytes; it is beside the parser that it checks.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tollgate_server::fuzz_targets::bundle(bytes));
