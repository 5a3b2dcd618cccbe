//! Abreast: an editor sidecar that lets agents and people edit the same files at the same time.

pub mod disk;
pub mod server;
pub mod text;
pub mod version;
