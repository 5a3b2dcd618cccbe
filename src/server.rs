//! The server: frames in, messages out.

pub mod frames;
pub mod message;
pub mod stdio;
