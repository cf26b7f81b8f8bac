#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tollgate_cli::fuzz_targets::import_kong(bytes));
