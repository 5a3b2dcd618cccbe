//! A process that may open few files only.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    thread,
    time::Instant,
};

use abreast::replay::client::ServerCommand;

use crate::support::{PATIENCE, World};

const N_EDITS: usize = 300;

#[test]
fn of_many_files_that_were_replaced_the_last_ones_are_still_watched_for_late_saves() {
    let world = World::with(&[("a.txt", "0")], |options| {
        let server = env!("CARGO_BIN_EXE_abreast");
        let line = format!("sh -c 'ulimit -n 128; exec {server} serve'");
        options.server = ServerCommand::parse(&line).unwrap();
    });
    let session = world.session_that_read("s", &["a.txt"]);
    for nth in 1..N_EDITS {
        session.write("a.txt", &nth.to_string()).unwrap();
    }
    let path = world.root().join("a.txt");
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    session.write("a.txt", "last").unwrap();
    file.write_all(b" and late").unwrap();
    let expected = format!("{} and late", N_EDITS - 1);
    let started = Instant::now();
    while fs::read_to_string(&path).unwrap() != expected {
        assert!(started.elapsed() < PATIENCE, "it is lost");
        thread::yield_now();
    }
}
