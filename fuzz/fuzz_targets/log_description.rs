#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| parsley_fuzz_targets::log_description(bytes));
