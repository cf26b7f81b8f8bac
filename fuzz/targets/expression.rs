//! Calls the fuzz target `expression` with arbitrary bytes; it is beside the parser that it checks.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tollgate_rules::fuzz_targets::expression(bytes));
