//! What agents ask for.

use super::{
    super::plan::{file_of, version},
    *,
};

impl World {
    pub(super) fn call(&mut self, session: Option<u8>, kind: Kind, request: Request) -> Checked {
        self.next_call += 1;
        let id = self.next_call;
        let known = session.and_then(|it| self.oracle.session(it));
        let turn = session.and_then(|it| self.turns.get(&it).copied());
        self.oracle.called(id, known, turn, kind);
        let connection = connection_of(session);
        let paths = self.workspace.paths_of(&request);
        let lookups = Lookups::of(paths, |path| Ok(self.disk.resolve(path)));
        if self.trace {
            trace(&format!("    call {id}: {request:?}"));
        }
        self.dispatch(
            Event::Call {
                id: CallId(id),
                connection,
                request,
                context: Context {
                    turn,
                    work_done_token: None,
                },
                lookups,
            },
            Some(id),
            None,
        )
    }

    pub(super) fn open_session(&mut self, session: u8) -> Checked {
        self.oracle.open_session(session);
        let params = OpenSessionParams {
            session_id: Some(name(session)),
            ..OpenSessionParams::default()
        };
        self.call(Some(session), Kind::Other, Request::OpenSession(params))
    }

    /// Opens a session with the ledger that was kept last.
    pub(super) fn import(&mut self, session: u8) -> Checked {
        let Some(mut ledger) = self.exported.clone() else {
            return Ok(());
        };
        // Under the name of a document that is not open there may be a file.
        ledger.entries.retain(|it| self.can_name(file_of(&it.path)));
        if self.oracle.session(session).is_some() {
            return Ok(());
        }
        self.oracle.open_session(session);
        let entries = ledger.entries.clone();
        let params = OpenSessionParams {
            session_id: Some(name(session)),
            ledger: Some(ledger),
            ..OpenSessionParams::default()
        };
        self.call(
            Some(session),
            Kind::Import { entries },
            Request::OpenSession(params),
        )
    }

    /// What a host calls a file.
    fn name_of(&self, file: u8) -> String {
        let name = match (self.setup.escaped, self.next_call % 3) {
            (true, 0) => files::uri_as(file, true),
            (true, 1) => files::uri(file),
            _ => files::path(file),
        };
        name.to_string()
    }

    pub(super) fn close_session(&mut self, session: u8) -> Checked {
        self.oracle.close_session(session);
        let params = CloseSessionParams {
            session_id: name(session),
        };
        self.call(Some(session), Kind::Other, Request::CloseSession(params))
    }

    pub(super) fn disconnect(&mut self, connection: u8) -> Checked {
        for session in 0..3 {
            if connection_of(Some(session)) == ConnectionId(connection.into()) {
                self.oracle.close_session(session);
            }
        }
        self.dispatch(
            Event::Disconnected(ConnectionId(connection.into())),
            None,
            None,
        )
    }

    pub(super) fn can_name(&self, file: u8) -> bool {
        file != UNTITLED || self.oracle.mirror(file).is_some()
    }

    pub(super) fn read(&mut self, session: u8, file: u8, from: u8, lines: u8) -> Checked {
        if !self.can_name(file) {
            return Ok(());
        }
        let params = ReadParams {
            session_id: Some(name(session)),
            path: self.name_of(file),
            offset: (from > 0).then(|| from.into()),
            limit: (lines > 0).then(|| lines.into()),
            format: crate::protocol::Format::Text,
        };
        self.call(Some(session), Kind::Read { file }, Request::Read(params))
    }

    /// The content that is meant, and its version.
    fn named(&self, file: u8, named: Named) -> Option<Version> {
        match named {
            Named::Absent => None,
            Named::Current => self.oracle.earlier(file, 0),
            Named::Earlier(n) => self.oracle.earlier(file, usize::from(n)),
        }
    }

    pub(super) fn observe(&mut self, session: u8, file: u8, what: Named, by: Shown) -> Checked {
        if !self.can_name(file) {
            return Ok(());
        }
        let ago = match what {
            Named::Earlier(ago) => ago,
            Named::Current | Named::Absent => 0,
        };
        let mut params = ObserveParams {
            session_id: name(session),
            path: self.name_of(file),
            version: None,
            document_version: None,
            text: None,
        };
        let mut said = Said::Current;
        match by {
            Shown::Version => {
                params.version = self.named(file, what).filter(|_| ago > 0);
                said = params.version.map_or(said, Said::Version);
            }
            Shown::Text => {
                let Some(text) = self.oracle.earlier_text(file, ago.into()) else {
                    return Ok(());
                };
                said = Said::Version(version(&text));
                params.text = Some(text.to_string());
            }
            Shown::Document => {
                let Some(mirror) = self.oracle.mirror(file) else {
                    return Ok(());
                };
                params.document_version = Some(mirror.lsp_version - i32::from(ago));
                if ago > 0 {
                    said = Said::Lost;
                }
            }
        }
        self.call(
            Some(session),
            Kind::Observe { file, said },
            Request::Observe(params),
        )
    }

    pub(super) fn forget(&mut self, session: u8, file: Option<u8>) -> Checked {
        if file.is_some_and(|it| !self.can_name(it)) {
            return Ok(());
        }
        let params = ForgetParams {
            session_id: name(session),
            paths: file.map(|it| vec![self.name_of(it)]),
        };
        self.call(
            Some(session),
            Kind::Forget { file },
            Request::Forget(params),
        )
    }

    pub(super) fn change(
        &mut self,
        session: u8,
        steps: &[Step],
        guard: Option<Named>,
        dry_run: bool,
    ) -> Checked {
        let changes: Vec<Change> = steps
            .iter()
            .filter_map(|it| self.resolve(session, *it, guard))
            .collect();
        if changes.is_empty() {
            return Ok(());
        }
        let params = ApplyParams {
            session_id: (session != NOBODY).then(|| name(session)),
            changes: changes.clone(),
            call_id: Some((self.next_call + 1).to_string()),
            label: None,
            dry_run,
        };
        let is_apply = changes.len() > 1;
        self.call(
            Some(session).filter(|it| *it != NOBODY),
            Kind::Change { changes, dry_run },
            Request::Change { params, is_apply },
        )
    }

    /// A change in the words of the protocol; what is replaced is what the session saw last.
    pub(super) fn resolve(&self, session: u8, step: Step, guard: Option<Named>) -> Option<Change> {
        let guard = |file: u8| {
            Some(match guard? {
                Named::Absent => Guard::CreateIfAbsent,
                named => Guard::ReplaceIfVersion {
                    version: self.named(file, named)?,
                },
            })
        };
        let seen = |file: u8| {
            let session = self.oracle.session(session)?;
            Some(self.oracle.last_seen(session, file)??.to_string())
        };
        // Who has not seen a file guesses.
        let guess = |file: u8| {
            let raw = self
                .oracle
                .mirror(file)
                .map(|it| &it.text)
                .or_else(|| self.disk.files.get(&file));
            seen(file).unwrap_or_else(|| raw.map(|it| view(it)).unwrap_or_default())
        };
        let path = |file: u8| self.can_name(file).then(|| self.name_of(file));
        Some(match step {
            Step::Edit {
                file,
                at,
                chars,
                new,
                all,
            } => {
                let text = guess(file);
                let range = span(&text, cursor(&text, at), chars.max(1));
                let old_string = if range.is_empty() {
                    "nothing".to_string()
                } else {
                    text[range].to_string()
                };
                Change::Edit {
                    path: path(file)?,
                    old_string,
                    new_string: new.to_string(),
                    replace_all: all,
                    unicode_fallback: None,
                    guard: guard(file),
                }
            }
            Step::Write { file, text, keep } => {
                let seen = if keep { guess(file) } else { String::new() };
                Change::Write {
                    path: path(file)?,
                    content: format!("{text}{seen}"),
                    eol: WriteEol::Keep,
                    guard: guard(file),
                }
            }
            Step::Delete { file } => Change::Delete {
                path: path(file)?,
                guard: guard(file),
            },
            Step::Rename { file, to } => Change::Rename {
                path: path(file)?,
                new_path: path(to)?,
                guard: guard(file),
            },
        })
    }

    pub(super) fn ledger(&mut self, session: u8, file: Option<u8>, export: bool) -> Checked {
        if file.is_some_and(|it| !self.can_name(it)) {
            return Ok(());
        }
        let path = file.map(|it| self.name_of(it));
        let params = LedgerParams {
            session_id: name(session),
            path,
            export,
        };
        self.call(Some(session), Kind::Ledger, Request::Ledger(params))
    }
}
