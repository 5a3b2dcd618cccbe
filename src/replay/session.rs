//! An agent session, as a host would drive it.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    client::{CallError, Connection, Pending},
    editor::merge,
};

/// An open agent session; its calls go over the editor's connection.
#[derive(Clone, Debug)]
pub struct Session {
    connection: Connection,
    id: String,
    timeout: Duration,
}

impl Session {
    pub(super) fn new(connection: Connection, id: &str, timeout: Duration) -> Self {
        Self {
            connection,
            id: id.to_string(),
            timeout,
        }
    }

    /// Returns the session's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Sends a call of this session without waiting for its answer.
    pub fn start(&self, method: &str, params: Value) -> Pending {
        let mut all = json!({ "sessionId": self.id });
        merge(&mut all, params);
        self.connection.request(method, all)
    }

    /// Calls a method for this session.
    pub fn call(&self, method: &str, params: Value) -> Result<Value, CallError> {
        self.start(method, params).wait(self.timeout)
    }

    /// Reads a file.
    pub fn read(&self, path: &str) -> Result<Value, CallError> {
        self.call("abreast/read", json!({ "path": path }))
    }

    /// Reads some lines of a file, from the 1-based `offset` on.
    pub fn read_window(&self, path: &str, offset: usize, limit: usize) -> Result<Value, CallError> {
        self.call(
            "abreast/read",
            json!({ "path": path, "offset": offset, "limit": limit }),
        )
    }

    /// Replaces the only place that has `old_string`.
    pub fn edit(&self, path: &str, old_string: &str, new_string: &str) -> Result<Value, CallError> {
        self.start_edit(path, old_string, new_string)
            .wait(self.timeout)
    }

    /// Sends an edit without waiting for its answer.
    pub fn start_edit(&self, path: &str, old_string: &str, new_string: &str) -> Pending {
        let params = json!({ "path": path, "oldString": old_string, "newString": new_string });
        self.start("abreast/edit", params)
    }

    /// Writes a whole file.
    pub fn write(&self, path: &str, content: &str) -> Result<Value, CallError> {
        self.call("abreast/write", json!({ "path": path, "content": content }))
    }

    /// Makes several changes, all or none.
    pub fn apply(&self, changes: Value) -> Result<Value, CallError> {
        self.call("abreast/apply", changes_of(changes))
    }

    /// Sends several changes without waiting for the answer.
    pub fn start_apply(&self, changes: Value) -> Pending {
        self.start("abreast/apply", changes_of(changes))
    }

    /// Returns the ledger's entry for a file.
    pub fn ledger_entry(&self, path: &str) -> Result<Value, CallError> {
        let mut answer = self.call("abreast/ledger", json!({ "path": path }))?;
        Ok(answer["entries"][0].take())
    }

    /// Ends the session.
    pub fn close(self) -> Result<Value, CallError> {
        self.call("abreast/closeSession", json!({}))
    }
}

fn changes_of(changes: Value) -> Value {
    let mut params = serde_json::Map::new();
    params.insert("changes".to_string(), changes);
    Value::Object(params)
}
