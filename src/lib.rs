//! Abreast: an editor sidecar that lets agents and people edit the same files at the same time.

pub mod demo;
pub mod disk;
pub mod replay;
pub mod server;
pub mod text;
pub mod version;
