//! Command line.

use std::{
    io::{self, IsTerminal},
    process::ExitCode,
};

use clap::{Parser, Subcommand, ValueEnum};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::level_filters::LevelFilter;

/// An editor sidecar: agents and people edit the same files at the same time, and nobody writes over what they have
/// not seen
#[derive(Debug, Parser)]
#[command(version)]
struct CommandLine {
    /// How much is logged, on stderr
    #[arg(long, global = true, value_name = "LEVEL", default_value = "warn")]
    log_level: LogLevel,
    /// Serve an editor on stdin and stdout; the default, accepted because editors pass it
    #[arg(long)]
    stdio: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve an editor over the language server protocol; the default
    Serve {
        /// Use stdin and stdout; the default
        #[arg(long)]
        stdio: bool,
    },
    /// Play case files against a server process with a model editor
    Replay(abreast::replay::Arguments),
    /// Show in fifteen seconds what the sidecar is for, on real files in a temporary directory
    Demo(abreast::demo::Arguments),
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Error => Self::ERROR,
            LogLevel::Warn => Self::WARN,
            LogLevel::Info => Self::INFO,
            LogLevel::Debug => Self::DEBUG,
            LogLevel::Trace => Self::TRACE,
        }
    }
}

fn main() -> ExitCode {
    let command_line = CommandLine::parse();
    tracing_subscriber::fmt()
        .with_max_level(LevelFilter::from(command_line.log_level))
        // Stdout belongs to the protocol.
        .with_writer(io::stderr)
        .with_ansi(false)
        .init();
    match command_line.command {
        Some(Command::Replay(arguments)) => abreast::replay::run(&arguments),
        Some(Command::Demo(arguments)) => abreast::demo::run(&arguments),
        Some(Command::Serve { .. }) | None => serve(),
    }
}

fn serve() -> ExitCode {
    if io::stdin().is_terminal() {
        tracing::warn!(
            "waiting for an editor on stdin, which is a terminal; `abreast --help` tells what else there is"
        );
    }
    raise_file_limit();
    match abreast::server::serve() {
        Ok(status) => ExitCode::from(status),
        Err(err) => {
            tracing::error!("the server cannot start: {err}");
            ExitCode::FAILURE
        }
    }
}

/// Lets the process open as many files as it may: what a change displaces is held open for a while.
fn raise_file_limit() {
    // More is refused by some systems that say that there is no limit.
    const N_FILES: u64 = 10_240;
    let limit = getrlimit(Resource::Nofile);
    let n_files = limit.maximum.unwrap_or(N_FILES).min(N_FILES);
    if limit.current.is_some_and(|it| it < n_files) {
        let current = Some(n_files);
        if let Err(err) = setrlimit(Resource::Nofile, Rlimit { current, ..limit }) {
            tracing::info!("the limit of open files cannot be raised: {err}");
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn serving_is_the_default_and_stdio_may_be_said_anywhere() {
        for line in [
            "abreast",
            "abreast --stdio",
            "abreast serve --stdio",
            "abreast serve --log-level debug",
        ] {
            let command = CommandLine::parse_from(line.split(' ')).command;
            assert!(
                matches!(command, None | Some(Command::Serve { .. })),
                "{line}"
            );
        }
    }
}
