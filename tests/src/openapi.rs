//! The OpenAPI document as a judge: is what the server answered among what it says it answers?

use std::collections::BTreeSet;
use std::sync::Mutex;

use boon::{Compiler, Draft, Schemas};
use serde_json::Value;

use crate::http::Reply;

/// Where the document stands for the validator.
const PLACE: &str = "file:///openapi.json";

/// A document, and what was seen of it.
#[derive(Debug)]
pub struct Document {
    document: Value,
    seen: Mutex<BTreeSet<(String, String, u16)>>,
}

impl Document {
    /// Takes the document as the server gives it.
    pub fn new(document: Value) -> Self {
        assert_eq!(document["openapi"], "3.1.0");
        Document {
            document,
            seen: Mutex::default(),
        }
    }

    /// Every (path, method) that it has.
    pub fn operations(&self) -> BTreeSet<(String, String)> {
        let paths = self.document["paths"].as_object().expect("paths").iter();
        let of = |(path, item): (&String, &Value)| {
            let methods = item
                .as_object()
                .expect("a path's methods")
                .keys()
                .filter(|key| *key != "parameters");
            methods
                .map(|method| (path.clone(), method.clone()))
                .collect::<Vec<_>>()
        };
        paths.flat_map(of).collect()
    }

    /// Every (path, method, status) that was checked.
    pub fn seen(&self) -> BTreeSet<(String, String, u16)> {
        self.seen.lock().expect("no test panics in here").clone()
    }

    /// Fails unless the document has this path, method, status and media type, and the body is as
    /// its schema says.
    #[track_caller]
    pub fn check(&self, reply: &Reply) {
        let what = format!("{} {} {}", reply.method, reply.path, reply.status);
        let (template, method) = (self.template(&reply.path), reply.method.to_ascii_lowercase());
        let template = template.unwrap_or_else(|| panic!("{what}: the document has no such path"));
        let responses = format!("/paths/{}/{method}/responses", escape(&template));
        assert!(
            self.document.pointer(&responses).is_some(),
            "{what}: the document has no such method"
        );
        let mut pointer = format!("{responses}/{}", reply.status);
        let response = self
            .document
            .pointer(&pointer)
            .unwrap_or_else(|| panic!("{what}: the document has no such status"));
        if let Some(reference) = response["$ref"].as_str() {
            pointer = reference.trim_start_matches('#').to_owned();
        }
        if reply.status == 204 {
            assert!(reply.body.is_empty(), "{what}: 204 has no body");
            return self.keep(template, method, reply.status);
        }
        pointer += &format!("/content/{}/schema", escape(reply.media_type()));
        assert!(
            self.document.pointer(&pointer).is_some(),
            "{what}: the document has no {}",
            reply.media_type()
        );
        self.validate(&pointer, &body(reply), &what);
        self.keep(template, method, reply.status);
    }

    fn keep(&self, template: String, method: String, status: u16) {
        let mut seen = self.seen.lock().expect("no test panics in here");
        seen.insert((template, method, status));
    }

    /// Fails unless a value is as a schema of the document says.
    #[track_caller]
    pub fn validate(&self, pointer: &str, value: &Value, what: &str) {
        let (mut compiler, mut schemas) = (Compiler::new(), Schemas::new());
        compiler.set_default_draft(Draft::V2020_12);
        compiler
            .add_resource(PLACE, self.document.clone())
            .expect("the document can be placed");
        let fragment = pointer.replace('{', "%7B").replace('}', "%7D");
        let schema = compiler
            .compile(&format!("{PLACE}#{fragment}"), &mut schemas)
            .unwrap_or_else(|e| panic!("{pointer}: {e:#}"));
        schemas
            .validate(value, schema)
            .unwrap_or_else(|e| panic!("{what}: not as the document says:\n{e:#}\n{value:#}"));
    }

    fn template(&self, path: &str) -> Option<String> {
        let path: Vec<&str> = path.split('?').next().unwrap_or_default().split('/').collect();
        let fits = |template: &&String| {
            let parts: Vec<&str> = template.split('/').collect();
            parts.len() == path.len()
                && parts
                    .iter()
                    .zip(&path)
                    .all(|(part, given)| part == given || part.starts_with('{'))
        };
        self.document["paths"]
            .as_object()
            .expect("paths")
            .keys()
            .find(fits)
            .cloned()
    }
}

/// As JSON where it is JSON, else as text.
fn body(reply: &Reply) -> Value {
    if reply.media_type().ends_with("json") {
        reply.json()
    } else {
        reply.text().into()
    }
}

/// One step of a JSON pointer.
fn escape(step: &str) -> String {
    step.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn reply(path: &str, status: u16, body: &str) -> Reply {
        let headers = vec![("content-type".into(), "application/json; charset=utf-8".into())];
        Reply {
            method: "GET".into(),
            path: path.into(),
            status,
            headers,
            body: body.into(),
        }
    }

    fn document() -> Document {
        Document::new(json!({
            "openapi": "3.1.0",
            "paths": {"/a/{b}": {"get": {"responses": {
                "200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/A"}}}},
            }}}},
            "components": {"schemas": {"A": {
                "type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}, "additionalProperties": false,
            }}},
        }))
    }

    #[test]
    fn what_the_document_says_passes() {
        let document = document();
        document.check(&reply("/a/1", 200, r#"{"n": 1}"#));
        assert_eq!(
            document.seen(),
            BTreeSet::from([("/a/{b}".into(), "get".into(), 200)])
        );
        assert_eq!(
            document.operations(),
            BTreeSet::from([("/a/{b}".into(), "get".into())])
        );
    }

    #[test]
    fn what_it_does_not_say_fails() {
        let bad = [
            reply("/b/1", 200, r#"{"n": 1}"#),
            reply("/a/1", 201, r#"{"n": 1}"#),
            reply("/a/1", 200, r#"{"n": "1"}"#),
            reply("/a/1", 200, r#"{"n": 1, "m": 1}"#),
            reply("/a/1", 200, "{}"),
            Reply {
                method: "PUT".into(),
                ..reply("/a/1", 200, r#"{"n": 1}"#)
            },
            Reply {
                headers: vec![],
                ..reply("/a/1", 200, r#"{"n": 1}"#)
            },
        ];
        for reply in bad {
            let failed = std::panic::catch_unwind(|| document().check(&reply)).is_err();
            assert!(failed, "{reply:?}");
        }
    }
}
