//! What a strict editor does with a `workspace/applyEdit`.
//!
//! Invariant: everything is checked before anything is changed, so an edit changes all of its documents or none.

use std::{collections::BTreeMap, ops};

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Echo, Model, Outgoing, did_change, refused};
use crate::replay::{client::ServerRequest, document::Range};

impl Model {
    /// Applies an edit as a strict editor does and tells it; an `echo` only changes how it is told.
    pub(super) fn apply(
        &mut self,
        request: ServerRequest,
        echo: Option<&Echo>,
        now_ms: u64,
    ) -> Vec<Outgoing> {
        let plans = match self.check(&request.params, now_ms) {
            Ok(plans) => plans,
            Err(miss) => return vec![refused(request.id, Some(miss.code), &miss.reason)],
        };
        let mut told = Vec::new();
        for (plan_idx, plan) in plans.iter().enumerate() {
            let document = self
                .documents
                .get_mut(&plan.uri)
                .expect("checked to be open");
            let replacements = match echo {
                Some(Echo::Split) => plan.replacements.iter().flat_map(halves).collect(),
                _ => plan.replacements.clone(),
            };
            let mut changes: Vec<_> = replacements
                .iter()
                .map(|(bytes, text)| document.replace(bytes.clone(), text))
                .collect();
            match echo {
                Some(Echo::Merged(typings)) if plan_idx == 0 => {
                    changes.extend(typings.iter().filter_map(|it| document.typed(it)));
                }
                Some(Echo::Whole) => changes = vec![json!({ "text": document.text })],
                Some(Echo::Overwritten(text)) if plan_idx == 0 => {
                    changes = vec![document.replace_all(text)];
                }
                _ => {}
            }
            if echo == Some(&Echo::Split) {
                told.extend(
                    changes
                        .into_iter()
                        .map(|it| did_change(&plan.uri, document, vec![it])),
                );
            } else {
                told.push(did_change(&plan.uri, document, changes));
            }
        }
        let versions: serde_json::Map<_, _> = plans
            .iter()
            .map(|it| (it.uri.clone(), self.documents[&it.uri].lsp_version.into()))
            .collect();
        let answer = json!({ "applied": true, "abreast": { "versions": versions } });
        let n_before = match echo {
            None | Some(Echo::Whole | Echo::Merged(_) | Echo::Overwritten(_)) => told.len(),
            Some(Echo::Split) => told.len().div_ceil(2),
            Some(Echo::AfterAnswer) => 0,
            Some(Echo::Never) => {
                told.clear();
                0
            }
        };
        told.insert(n_before, Outgoing::Answer(request.id, Ok(answer)));
        told
    }

    /// Checks an edit against every document it names, and changes nothing.
    fn check(&self, params: &Value, now_ms: u64) -> Result<Vec<Plan>, Miss> {
        let request = ApplyEdit::deserialize(params).map_err(|it| {
            Miss::new(
                "error",
                format!("cannot be decoded as a text edit of documents: {it}"),
            )
        })?;
        let is_late = request
            .abreast
            .as_ref()
            .is_some_and(|it| now_ms >= it.deadline);
        if is_late && !self.character.ignores_deadline {
            return Err(Miss::new("deadline", "came after its deadline"));
        }
        let mut plans: Vec<Plan> = Vec::new();
        for change in request.edit.document_changes()? {
            let uri = change.text_document.uri.clone();
            if plans.iter().any(|it| it.uri == uri) {
                return Err(Miss::new("error", format!("names {uri} twice")));
            }
            let guarding = request
                .abreast
                .as_ref()
                .and_then(|it| it.documents.iter().find(|it| it.uri == uri));
            let replacements = self.check_document(change, guarding)?;
            plans.push(Plan { uri, replacements });
        }
        Ok(plans)
    }

    fn check_document(
        &self,
        change: DocumentChange,
        guarding: Option<&Guarding>,
    ) -> Result<Vec<Replacement>, Miss> {
        let DocumentChange {
            text_document: VersionedDocument { uri, version },
            edits,
        } = change;
        let Some(document) = self.documents.get(&uri) else {
            return Err(Miss::new("not-open", format!("{uri} is not open")));
        };
        match guarding {
            Some(guarding) if guarding.instance != document.instance => {
                let (meant, have) = (guarding.instance, document.instance);
                return Err(Miss::new(
                    "instance",
                    format!("{uri} is instance {have}, the edit is for {meant}"),
                ));
            }
            None if self.character.is_strict => {
                return Err(Miss::new(
                    "error",
                    format!("params.abreast.documents does not name {uri}"),
                ));
            }
            _ => {}
        }
        match version {
            Some(version) if version != document.lsp_version => {
                let have = document.lsp_version;
                return Err(Miss::new(
                    "version",
                    format!("{uri} is at version {have}, the edit is for {version}"),
                ));
            }
            None if self.character.is_strict => {
                return Err(Miss::new(
                    "version",
                    format!("the edit of {uri} names no version"),
                ));
            }
            _ => {}
        }
        if document.is_read_only {
            return Err(Miss::new("read-only", format!("{uri} is read-only")));
        }
        if let Some(guarding) = guarding.filter(|it| it.old_texts.len() != edits.len()) {
            let (n_edits, n_old_texts) = (edits.len(), guarding.old_texts.len());
            return Err(Miss::new(
                "text",
                format!("{n_edits} edits of {uri}, but {n_old_texts} oldTexts"),
            ));
        }
        let mut replacements = Vec::new();
        for (edit_idx, edit) in edits.into_iter().enumerate() {
            let Some(bytes) = document.bytes(edit.range, document.encoding) else {
                let range = json!(edit.range);
                return Err(Miss::new("range", format!("{uri} has no range {range}")));
            };
            let old_text = &document.text[bytes.clone()];
            if let Some(guarding) = guarding.filter(|it| it.old_texts[edit_idx] != old_text) {
                let meant = &guarding.old_texts[edit_idx];
                return Err(Miss::new(
                    "text",
                    format!("{uri} has {old_text:?} where the edit means {meant:?}"),
                ));
            }
            replacements.push((bytes, edit.new_text));
        }
        // Stable, so that insertions at one place keep their order; then from the bottom up, so that offsets hold.
        replacements.sort_by_key(|(bytes, _)| (bytes.start, bytes.end));
        if replacements
            .windows(2)
            .any(|it| it[0].0.end > it[1].0.start)
        {
            return Err(Miss::new("range", format!("edits of {uri} overlap")));
        }
        replacements.reverse();
        Ok(replacements)
    }
}

type Replacement = (ops::Range<usize>, String);

/// What an edit does to one document, from the bottom up.
struct Plan {
    uri: String,
    replacements: Vec<Replacement>,
}

/// Why a strict editor does not apply an edit.
struct Miss {
    code: &'static str,
    reason: String,
}

impl Miss {
    fn new(code: &'static str, reason: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.into(),
        }
    }
}

#[derive(Deserialize)]
struct ApplyEdit {
    edit: WorkspaceEdit,
    abreast: Option<Guardings>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WorkspaceEdit {
    document_changes: Option<Vec<DocumentChange>>,
    changes: Option<BTreeMap<String, Vec<TextEdit>>>,
}

impl WorkspaceEdit {
    /// The changes by document; those of a `changes` map have no version.
    fn document_changes(self) -> Result<Vec<DocumentChange>, Miss> {
        match (self.document_changes, self.changes) {
            (Some(changes), None) => Ok(changes),
            (None, Some(changes)) => Ok(changes
                .into_iter()
                .map(|(uri, edits)| DocumentChange {
                    text_document: VersionedDocument { uri, version: None },
                    edits,
                })
                .collect()),
            _ => Err(Miss::new(
                "error",
                "either documentChanges or changes are needed",
            )),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DocumentChange {
    text_document: VersionedDocument,
    edits: Vec<TextEdit>,
}

#[derive(Deserialize)]
struct VersionedDocument {
    uri: String,
    version: Option<i32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TextEdit {
    range: Range,
    new_text: String,
}

#[derive(Deserialize)]
struct Guardings {
    documents: Vec<Guarding>,
    deadline: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Guarding {
    uri: String,
    instance: u64,
    old_texts: Vec<String>,
}

/// Splits a replacement in two that amount to the same: away with the old, then in with the new; or half of the new.
fn halves((bytes, text): &Replacement) -> Vec<Replacement> {
    let middle = text
        .char_indices()
        .map(|(at, _)| at)
        .nth(text.chars().count() / 2)
        .unwrap_or_default();
    if bytes.is_empty() && middle > 0 {
        let (first, second) = text.split_at(middle);
        let behind = bytes.start + first.len();
        return vec![
            (bytes.clone(), first.to_string()),
            (behind..behind, second.to_string()),
        ];
    }
    if text.is_empty() {
        return vec![(bytes.clone(), String::new())];
    }
    vec![
        (bytes.clone(), String::new()),
        (bytes.start..bytes.start, text.clone()),
    ]
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::replay::{
        document::Typing,
        model::{Character, Treatment},
    };

    const URI: &str = "untitled:a";

    fn model(text: &str) -> Model {
        let mut model = Model::new(Character::default(), Value::Null);
        model.open(URI, 7, Some(text)).expect("not open yet");
        model
    }

    /// An edit that puts a `.` in place of `old`, as the server would send it for `text` at version 7.
    fn edit(text: &str, old: &str) -> Value {
        let start = text.find(old).expect("in the text");
        let place = |character| json!({ "line": 0, "character": character });
        let range = json!({ "start": place(start), "end": place(start + old.len()) });
        json!({
            "edit": { "documentChanges": [{
                "textDocument": { "uri": URI, "version": 7 },
                "edits": [{ "range": range, "newText": "." }],
            }] },
            "abreast": {
                "documents": [{ "uri": URI, "instance": 1, "oldTexts": [old] }],
                "deadline": 5000,
            },
        })
    }

    fn request(params: Value) -> ServerRequest {
        ServerRequest {
            id: 1.into(),
            method: "workspace/applyEdit".to_string(),
            params,
        }
    }

    fn render(outgoing: &[Outgoing]) -> String {
        outgoing.iter().map(render_one).collect()
    }

    fn render_one(outgoing: &Outgoing) -> String {
        match outgoing {
            Outgoing::Notification(method, params) => {
                let version = &params["textDocument"]["version"];
                let changes = params["contentChanges"].as_array().into_iter().flatten();
                let changes: Vec<_> = changes.map(render_change).collect();
                format!("{method} v{version} {}\n", changes.join(" "))
            }
            Outgoing::Answer(_, Ok(answer)) => format!("answer {answer}\n"),
            Outgoing::Answer(_, Err(error)) => format!("error {error}\n"),
        }
    }

    fn render_change(change: &Value) -> String {
        let (range, text) = (&change["range"], &change["text"]);
        if range.is_null() {
            return format!("all={text}");
        }
        let (start, end) = (&range["start"]["character"], &range["end"]["character"]);
        format!("{start}..{end}={text}")
    }

    /// Plays one edit of `one two` (in place of `two`) that `change` has spoiled.
    #[track_caller]
    fn check_refused(change: impl FnOnce(&mut Value, &mut Model), code: &str) {
        let text = "one two";
        let mut model = model(text);
        let mut params = edit(text, "two");
        change(&mut params, &mut model);
        let before = model.document(URI).ok().map(|it| it.text.clone());
        let outgoing = model.receive(request(params), 4000);
        let [Outgoing::Answer(_, Ok(answer))] = outgoing.as_slice() else {
            panic!("only an answer is expected: {outgoing:?}");
        };
        assert_eq!(answer["applied"], false);
        assert_eq!(answer["abreast"]["code"], code, "{answer}");
        assert_eq!(model.document(URI).ok().map(|it| it.text.clone()), before);
    }

    #[track_caller]
    fn check_told(treatment: Treatment, text_after: &str, expected: &Expect) {
        let text = "one two";
        let mut model = model(text);
        model.order(treatment);
        let outgoing = model.receive(request(edit(text, "two")), 4000);
        assert_eq!(model.document(URI).expect("still open").text, text_after);
        expected.assert_eq(&render(&outgoing));
    }

    fn text_document(params: &mut Value) -> &mut Value {
        &mut params["edit"]["documentChanges"][0]["textDocument"]
    }

    #[test]
    fn an_edit_of_another_version_is_refused() {
        check_refused(
            |params, _| text_document(params)["version"] = 6.into(),
            "version",
        );
        check_refused(
            |params, _| text_document(params)["version"] = 8.into(),
            "version",
        );
        check_refused(
            |params, _| text_document(params)["version"] = Value::Null,
            "version",
        );
    }

    #[test]
    fn an_edit_of_another_instance_is_refused() {
        check_refused(
            |params, _| params["abreast"]["documents"][0]["instance"] = 2.into(),
            "instance",
        );
    }

    #[test]
    fn an_edit_of_a_document_that_is_not_open_is_refused() {
        check_refused(
            |params, _| text_document(params)["uri"] = "untitled:b".into(),
            "not-open",
        );
        check_refused(|_, model| drop(model.close(URI).expect("open")), "not-open");
    }

    #[test]
    fn an_edit_that_means_another_text_is_refused() {
        check_refused(
            |params, _| params["abreast"]["documents"][0]["oldTexts"] = json!(["Two"]),
            "text",
        );
        check_refused(
            |params, _| params["abreast"]["documents"][0]["oldTexts"] = json!([]),
            "text",
        );
    }

    #[test]
    fn an_edit_past_the_end_is_refused() {
        check_refused(
            |params, _| {
                params["edit"]["documentChanges"][0]["edits"][0]["range"]["end"]["character"] =
                    8.into();
            },
            "range",
        );
    }

    #[test]
    fn edits_that_overlap_are_refused() {
        check_refused(
            |params, _| {
                let edits = &mut params["edit"]["documentChanges"][0]["edits"];
                *edits = json!([edits[0], edits[0]]);
                params["abreast"]["documents"][0]["oldTexts"] = json!(["two", "two"]);
            },
            "range",
        );
    }

    #[test]
    fn an_edit_after_its_deadline_is_refused() {
        check_refused(
            |params, _| params["abreast"]["deadline"] = 3999.into(),
            "deadline",
        );
    }

    #[test]
    fn an_edit_of_a_read_only_document_is_refused() {
        check_refused(
            |_, model| drop(model.set_read_only(URI, true).expect("open")),
            "read-only",
        );
    }

    #[test]
    fn an_edit_that_does_not_name_its_documents_is_refused() {
        check_refused(
            |params, _| params["abreast"]["documents"] = json!([]),
            "error",
        );
        check_refused(|params, _| params["abreast"] = Value::Null, "error");
    }

    #[test]
    fn a_file_operation_is_refused() {
        check_refused(
            |params, _| {
                params["edit"]["documentChanges"][0] =
                    json!({ "kind": "create", "uri": "file:///x" });
            },
            "error",
        );
    }

    #[test]
    fn one_bad_document_spoils_the_whole_edit() {
        check_refused(
            |params, model| {
                model
                    .open("untitled:b", 1, Some("b"))
                    .expect("not open yet");
                let mut second = params["edit"]["documentChanges"][0].clone();
                second["textDocument"] = json!({ "uri": "untitled:b", "version": 2 });
                let first = params["edit"]["documentChanges"][0].clone();
                params["edit"]["documentChanges"] = json!([first, second]);
                let guarding = json!({ "uri": "untitled:b", "instance": 1, "oldTexts": ["two"] });
                params["abreast"]["documents"] =
                    json!([params["abreast"]["documents"][0], guarding]);
            },
            "version",
        );
    }

    #[test]
    fn a_right_edit_is_told_before_it_is_answered() {
        check_told(
            Treatment::Honest,
            "one .",
            &expect![[r#"
                textDocument/didChange v8 4..7="."
                answer {"abreast":{"versions":{"untitled:a":8}},"applied":true}
            "#]],
        );
    }

    #[test]
    fn typing_first_moves_the_version_so_the_edit_is_refused() {
        check_told(
            Treatment::TypeFirst(vec![Typing::at([0, 0], [0, 0], "x")]),
            "xone two",
            &expect![[r#"
                textDocument/didChange v8 0..0="x"
                answer {"abreast":{"code":"version"},"applied":false,"failureReason":"untitled:a is at version 8, the edit is for 7"}
            "#]],
        );
    }

    #[test]
    fn a_dropped_edit_is_called_applied() {
        check_told(
            Treatment::DropSilently,
            "one two",
            &expect![[r#"
            answer {"applied":true}
        "#]],
        );
    }

    #[test]
    fn an_echo_can_be_split_around_the_answer() {
        check_told(
            Treatment::Echo(Echo::Split),
            "one .",
            &expect![[r#"
                textDocument/didChange v8 4..7=""
                answer {"abreast":{"versions":{"untitled:a":9}},"applied":true}
                textDocument/didChange v9 4..4="."
            "#]],
        );
    }

    #[test]
    fn an_echo_can_carry_what_the_human_typed() {
        check_told(
            Treatment::Echo(Echo::Merged(vec![Typing::at([0, 0], [0, 3], "1")])),
            "1 .",
            &expect![[r#"
                textDocument/didChange v8 4..7="." 0..3="1"
                answer {"abreast":{"versions":{"untitled:a":8}},"applied":true}
            "#]],
        );
    }

    #[test]
    fn insertions_at_one_place_keep_their_order() {
        let mut model = model("ab");
        let mut params = edit("ab", "a");
        let place = json!({ "line": 0, "character": 1 });
        let insertion =
            |text| json!({ "range": { "start": place, "end": place }, "newText": text });
        params["edit"]["documentChanges"][0]["edits"] = json!([insertion("1"), insertion("2")]);
        params["abreast"]["documents"][0]["oldTexts"] = json!(["", ""]);
        model.receive(request(params), 0);
        assert_eq!(model.document(URI).expect("open").text, "a12b");
    }
}
