//! What happens next, by chance.
//!
//! Invariant: chance decides everything in a run, and weights differ from run to run, so that each run exaggerates
//! something else: one types a lot, one has a slow disk, in one the editor never answers.

use super::{
    action::{
        Action, Behind, Garbled, Luck, Manner, NOBODY, Named, Setup, Shown, State, Step, Steps,
        Style,
    },
    random::Random,
    world::{Job, World},
};

const TYPED: [&str; 8] = ["x", "a", "\n", "é", "😀", "foo ", "one\n", "b"];
const NEW: [&str; 8] = ["x", "", "two", "1\n2\n", "é", "one", "\n", "a"];
const TEXTS: [&str; 9] = [
    "one\ntwo\nthree\n",
    "a",
    "",
    "one\r\ntwo\r\nthree\r\n",
    "a\nb\r\nc\rd\n",
    "\u{FEFF}one\r\ntwo\r\n",
    "aaa\naaa",
    "é 😀 é\n",
    "one two\n",
];

/// How often each kind of action is chosen in a run.
#[derive(Debug)]
pub(super) struct Chances {
    weights: [usize; 14],
    n_files: u8,
    n_sessions: u8,
    styles: Vec<Style>,
    manners: Vec<Manner>,
    /// Calls are about several files, and how often the disk fails, in percent.
    mixes: bool,
    bad_luck: usize,
    /// The hosts number turns.
    has_turns: bool,
    /// The editor's reports are in order, and it says nothing of its documents beside their text.
    is_clear: bool,
}

/// How the run is set up.
pub(super) fn setup(random: &mut Random) -> (Setup, Vec<&'static str>) {
    let strict = !random.chance(4);
    let setup = Setup {
        utf8: random.chance(40),
        lone_cr_is_text: random.chance(30),
        strict,
        sync: random.chance(85),
        codes: random.chance(70),
        adds_final_break: random.chance(15),
        liar: random.chance(8),
        linked: random.chance(15),
        large: random.chance(20),
        policy_off: random.chance(4),
        lf_only: random.chance(40),
        escaped: random.chance(25),
    };
    let mut texts = Vec::new();
    for _ in 0..3 {
        if !random.chance(15) {
            texts.push(random.pick(&TEXTS));
        }
    }
    (setup, texts)
}

impl Chances {
    pub(super) fn new(setup: Setup, random: &mut Random) -> Self {
        let mut weights = [0; 14];
        for weight in &mut weights {
            *weight = random.pick(&[1, 4, 10, 10, 20, 40]);
        }
        // What empties queues is never left out.
        for essential in [3, 4, 5, 7, 8] {
            weights[essential] += 15;
        }
        // Rare things stay rare.
        for (rare, least) in [(6, 8), (11, 12), (13, 10)] {
            weights[rare] /= least;
        }
        let all = [
            Style::Exact,
            Style::Split,
            Style::Minimal,
            Style::Halves,
            Style::Full,
        ];
        let styles = if random.chance(50) {
            all.to_vec()
        } else {
            vec![random.pick(&all)]
        };
        let mut manners = vec![Manner::Right(random.pick(&styles)); 8];
        for (manner, percent) in [
            (Manner::Later, 50),
            (Manner::AnswerFirst, 40),
            (Manner::Refuse, 40),
            (Manner::Fail, 20),
        ] {
            if random.chance(percent) {
                manners.push(manner);
            }
        }
        if setup.liar {
            manners.extend([Manner::Skip, Manner::Half]);
        }
        let mixes = setup.strict && !setup.liar && random.chance(45);
        if mixes {
            // Little but calls, and what they need to come to an end.
            for (kind, weight) in [(0, 3), (1, 12), (2, 6), (6, 2), (11, 1), (12, 2), (13, 1)] {
                weights[kind] = 1 + random.below(weight);
            }
        }
        let n_files = if mixes {
            3
        } else {
            random.pick(&[1, 2, 2, 3, 3, 4])
        };
        Self {
            weights,
            n_files,
            n_sessions: random.pick(&[1, 2, 2, 3]),
            styles,
            manners,
            mixes,
            bad_luck: if mixes {
                random.pick(&[10, 30, 60])
            } else {
                random.pick(&[3, 10, 40])
            },
            has_turns: random.chance(30),
            is_clear: random.chance(60),
        }
    }

    pub(super) fn choose(&self, world: &World, random: &mut Random) -> Action {
        let total: usize = self.weights.iter().sum();
        let mut n = random.below(total);
        let mut kind = 0;
        while n >= self.weights[kind] {
            n -= self.weights[kind];
            kind += 1;
        }
        let file = random.byte(self.n_files);
        let session = random.byte(self.n_sessions);
        let n_done = world.jobs.iter().filter(|it| it.is_done()).count();
        let n_waiting = world.jobs.len() - n_done;
        match kind {
            0 => Self::show(world, file, random),
            1 | 2 if !world.editor.documents.contains_key(&file) => Action::Open {
                // A call is to be about closed files, too.
                file: if self.mixes { file % 2 } else { file },
            },
            1 | 2 if self.mixes && random.chance(70) => Action::Deliver,
            1 => Action::Type {
                file,
                at: random.place(),
                text: random.pick(&TYPED),
            },
            2 => match random.below(6) {
                0 | 1 => Action::Erase {
                    file,
                    at: random.place(),
                    chars: random.pick(&[1, 1, 3, 20]),
                },
                2 | 3 => Action::Undo { file },
                4 => Action::Redo { file },
                _ => Action::SwitchEol { file },
            },
            3 => Action::Flush {
                file,
                style: random.pick(&self.styles),
            },
            4 if !world.editor.held.is_empty() && random.chance(40) => Action::Settle {
                nth: 0,
                style: random.pick(&self.styles),
            },
            4 if !world.editor.inbox.is_empty() => Action::Handle {
                nth: nth(world.editor.inbox.len(), random),
                manner: random.pick(&self.manners),
            },
            6 => match random.below(12) {
                0 => match random.below(4) {
                    0 => Action::Quit,
                    1 => Action::Crash,
                    _ => Action::Die,
                },
                4 if !self.is_clear => Action::Garble {
                    file,
                    how: random.pick(&[
                        Garbled::Changes,
                        Garbled::Changes,
                        Garbled::Version,
                        Garbled::Document,
                    ]),
                },
                5 if !self.is_clear => {
                    let is = random.chance(50);
                    let state = match random.below(3) {
                        0 => State::ReadOnly(is),
                        1 => State::Conflict(is),
                        _ => State::Unsynced(is),
                    };
                    Action::State { file, state }
                }
                1..=5 => Action::Hint { file },
                _ => {
                    let how = match random.below(6) {
                        0 | 1 => Behind::Append(random.pick(&TYPED)),
                        2 | 3 => Behind::Earlier(random.byte(4)),
                        4 => Behind::Write(random.pick(&TEXTS)),
                        _ => Behind::Vanish,
                    };
                    Action::Meddle { file, how }
                }
            },
            7 if n_waiting > 0 => {
                let nth = nth(n_waiting, random);
                let job = world.jobs.iter().filter(|it| !it.is_done()).nth(nth.into());
                let is_change = job.is_some_and(Job::is_disk_change);
                if job.is_some_and(Job::is_commit) {
                    match random.below(10) {
                        0 => return Action::Close { file, flush: true },
                        1..5 => return Action::Begin { nth },
                        _ => {}
                    }
                }
                let n = random.byte(4);
                let bad = [
                    Luck::Bad(n),
                    Luck::Bad(n),
                    Luck::Denied(n),
                    Luck::Worse(n),
                    Luck::Stuck(n),
                    Luck::Late(n),
                ];
                let luck = if is_change && random.chance(self.bad_luck) {
                    random.pick(&bad)
                } else {
                    Luck::Good
                };
                Action::Work { nth, luck }
            }
            8 if n_done > 0 => Action::Finish {
                nth: nth(n_done, random),
            },
            4 | 5 | 7 | 8 => Action::Deliver,
            9 | 10 if world.oracle.session(session).is_none() => {
                if world.exported.is_some() && random.chance(60) {
                    Action::Import { session }
                } else {
                    Action::OpenSession { session }
                }
            }
            9 => Action::Read {
                session,
                file,
                from: if random.chance(15) { random.byte(4) } else { 0 },
                lines: if random.chance(15) { random.byte(4) } else { 0 },
            },
            10 => self.change(world, session, file, random),
            11 => match random.below(15) {
                9 | 10 => Action::Observe {
                    session,
                    file,
                    what: if random.chance(60) {
                        Named::Current
                    } else {
                        Named::Earlier(random.byte(4))
                    },
                    by: random.pick(&[Shown::Version, Shown::Text, Shown::Document]),
                },
                11 => Action::Forget {
                    session,
                    file: random.chance(70).then_some(file),
                },
                12 | 13 if self.has_turns => Action::NextTurn { session },
                14 => Action::Export { session },
                0 => Action::CloseSession { session },
                1 => Action::Disconnect {
                    connection: random.byte(2),
                },
                2..5 => Action::Ledger {
                    session,
                    file: random.chance(50).then_some(file),
                },
                _ => Action::Cancel {
                    nth: random.byte(8),
                },
            },
            12 => Action::Wait {
                ms: random.pick(&[1, 20, 60, 250]),
            },
            _ => Action::Wait {
                ms: random.pick(&[500, 2100, 5100]),
            },
        }
    }

    fn show(world: &World, file: u8, random: &mut Random) -> Action {
        if !world.editor.documents.contains_key(&file) {
            return Action::Open { file };
        }
        match random.below(6) {
            0 | 1 => Action::Close {
                file,
                flush: random.chance(50),
            },
            2 | 3 => Action::Save { file },
            _ => Action::Reload {
                file,
                same_version: random.chance(60),
            },
        }
    }

    fn change(&self, world: &World, session: u8, file: u8, random: &mut Random) -> Action {
        let known = world.oracle.session(session);
        if self.mixes {
            if world.oracle.unanswered().len() > 2 {
                return Action::Deliver;
            }
            let is_old = |it: &u8| known.is_some_and(|known| !world.oracle.is_fresh(known, *it));
            let old = (0..self.n_files).find(is_old);
            if let Some(file) = old.filter(|_| random.chance(85)) {
                return Action::Read {
                    session,
                    file,
                    from: 0,
                    lines: 0,
                };
            }
        }
        let n = if self.mixes {
            random.pick(&[1, 2, 3, 3, 3])
        } else {
            random.pick(&[1, 1, 1, 2, 2, 3])
        };
        let mut steps = Vec::new();
        let first = file;
        for step in 0..n {
            let mut file = if step == 0 {
                file
            } else {
                random.byte(self.n_files)
            };
            let has_seen =
                |file: u8| known.is_some_and(|it| world.oracle.last_seen(it, file).is_some());
            if self.mixes {
                file = (first + step) % self.n_files;
            } else if !has_seen(file) {
                file = (0..self.n_files).find(|it| has_seen(*it)).unwrap_or(file);
            }
            let kind = if self.mixes {
                // What can hardly be refused.
                random.pick(&[0, 1, 2, 2, 2, 2, 2, 2, 7, 7])
            } else {
                random.below(20)
            };
            steps.push(match kind {
                0 => Step::Delete { file },
                1 => Step::Rename {
                    file,
                    to: random.byte(self.n_files),
                },
                2..6 => Step::Write {
                    file,
                    text: random.pick(&NEW),
                    keep: random.chance(60),
                },
                _ => Step::Edit {
                    file,
                    at: random.place(),
                    chars: random.pick(&[1, 2, 4, 9]),
                    new: random.pick(&NEW),
                    all: random.chance(25),
                },
            });
        }
        if steps.len() == 1 && !world_knows(world, known, file) && random.chance(80) {
            return Action::Read {
                session,
                file,
                from: 0,
                lines: 0,
            };
        }
        let session = if random.chance(5) { NOBODY } else { session };
        let guard = random
            .chance(if session == NOBODY { 80 } else { 6 })
            .then(|| match random.below(5) {
                0 => Named::Absent,
                1 | 2 => Named::Earlier(random.byte(3)),
                _ => Named::Current,
            });
        Action::Change {
            session,
            steps: Steps(steps),
            guard,
            dry_run: random.chance(3),
        }
    }
}

fn world_knows(world: &World, session: Option<usize>, file: u8) -> bool {
    session.is_some_and(|it| world.oracle.last_seen(it, file).is_some())
}

/// Mostly the first of `n`.
fn nth(n: usize, random: &mut Random) -> u8 {
    if n > 1 && random.chance(30) {
        random.byte(u8::try_from(n).unwrap_or(u8::MAX))
    } else {
        0
    }
}
