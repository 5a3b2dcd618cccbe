//! The only module that touches files.
