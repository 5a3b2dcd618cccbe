//! Abreast: an editor sidecar that lets agents and people edit the same files at the same time.

pub mod capabilities;
pub mod disk;
pub mod engine;
pub mod error;
pub mod ledger;
pub mod path;
pub mod pending;
pub mod plan;
pub mod policy;
pub mod protocol;
pub mod read;
pub mod server;
pub mod text;
pub mod version;
pub mod workspace;
