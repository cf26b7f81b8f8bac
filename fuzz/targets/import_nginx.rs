//! Calls the fuzz target `import_nginx` with arbitrary bytes; it is beside the parser that it checks.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tollgate_cli::fuzz_targets::import_nginx(bytes));
