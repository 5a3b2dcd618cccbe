#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| abreast_fuzz::frame_reader(data));
