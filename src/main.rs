//! Command line.
use std::process::ExitCode;

fn main() -> ExitCode {
    match abreast::server::serve() {
        Ok(status) => ExitCode::from(status),
        Err(_) => ExitCode::FAILURE,
    }
}
