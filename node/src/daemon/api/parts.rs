//! multipart/form-data: what a party brings to a run. A vector goes to a file as it comes,
//! everything else is short.

use axum::body::Body;
use hyper::StatusCode;
use hyper::header::{self, HeaderMap};
use multer::{Field, Multipart};
use tempfile::NamedTempFile;
use tokio::io::AsyncWriteExt;

use crate::daemon::api::body::{Incoming, Used};
use crate::daemon::api::problem::Problem;
use crate::daemon::contribution::{Contribution, Vector};
use crate::daemon::refusal::{Kind, Refusal};
use crate::daemon::service::Service;
use crate::telling::failure::Exit;
use crate::vector_file::formats;

/// The longest plan or run file, in bytes. The plan of 200 parties over a complete graph has 2 MB.
const LONGEST_TEXT: u64 = 32 << 20;
/// The longest name of a file or data set: that of file systems.
const LONGEST_NAME: u64 = 255;

/// The parts of a request.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// A plan or a run file, whichever was asked for.
    pub(super) text: Option<Vec<u8>>,
    /// What this party brings.
    pub(super) brings: Contribution,
    /// How the user calls an uploaded file, and how we do.
    pub(super) names: Option<[String; 2]>,
}

impl Parts {
    /// Whether nothing is brought.
    pub(super) fn empty(&self) -> bool {
        self.brings.vector.is_none() && self.brings.data_set.is_none()
    }

    /// The text, or what is missing.
    pub(super) fn take_text(&mut self, part: &str) -> Result<Vec<u8>, Problem> {
        self.text.take().ok_or_else(|| {
            Problem::malformed(format!("there is no part {part:?}"))
                .field(part)
                .hint(format!("send it: curl -F {part}=@FILE"))
        })
    }
}

/// A refusal of the service in the user's words; `names` are those of [`Parts`].
pub(super) fn refused(names: Option<[String; 2]>, refusal: Refusal) -> Problem {
    let problem = Problem::from(refusal);
    match names {
        Some([theirs, ours]) => problem.rename(&ours, &theirs),
        None => problem,
    }
}

/// Reads all parts. `text` names the part with the plan or run file, if there is one.
pub(super) async fn read(
    service: &Service,
    headers: &HeaderMap,
    body: Body,
    text: Option<&'static str>,
) -> Result<Parts, Problem> {
    let limit = service.config().api.max_body_bytes;
    let mut incoming = Incoming::new(headers, body, limit);
    let result = match boundary(headers) {
        Err(problem) => Err(problem),
        Ok(boundary) => {
            let reader = Reader {
                service,
                used: incoming.used(),
                limit,
                text,
                parts: Parts::default(),
                seen: vec![],
            };
            reader.all(Multipart::new(&mut incoming, boundary)).await
        }
    };
    if result.is_err() {
        incoming.linger().await;
    }
    result
}

fn boundary(headers: &HeaderMap) -> Result<String, Problem> {
    let content_type = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    multer::parse_boundary(content_type).map_err(|_| {
        Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "media-type",
            "the body is not multipart/form-data with a boundary",
        )
        .field("Content-Type")
        .hint("send the parts as `curl -F` does")
    })
}

struct Reader<'a> {
    service: &'a Service,
    used: Used,
    limit: u64,
    text: Option<&'static str>,
    parts: Parts,
    seen: Vec<&'static str>,
}

/// The parts besides the text.
const VECTOR: &str = "vector";
const DATA_FILE: &str = "data_file";
const DATA_SET: &str = "data_set";

impl Reader<'_> {
    async fn all(mut self, mut multipart: Multipart<'_>) -> Result<Parts, Problem> {
        while let Some(field) = multipart.next_field().await.map_err(unreadable)? {
            self.field(field).await?;
        }
        Ok(self.parts)
    }

    async fn field(&mut self, field: Field<'_>) -> Result<(), Problem> {
        let known = self.text.into_iter().chain([VECTOR, DATA_FILE, DATA_SET]);
        let Some(name) = known.clone().find(|known| field.name() == Some(known)) else {
            let known: Vec<&str> = known.collect();
            return Err(Problem::malformed("a part has a name that is not known here")
                .hint(format!("parts: {}", known.join(", "))));
        };
        if self.seen.contains(&name) {
            return Err(Problem::malformed(format!("there are two parts {name:?}")).field(name));
        }
        self.seen.push(name);
        let two = self.parts.brings.vector.is_some() && [VECTOR, DATA_FILE].contains(&name);
        match name {
            _ if two => {
                return Err(Problem::malformed("both an uploaded vector and a data file")
                    .field(name)
                    .hint("send one of them"));
            }
            VECTOR => self.vector(field).await?,
            DATA_FILE => self.parts.brings.vector = Some(Vector::Named(self.short(field, name).await?)),
            DATA_SET => self.parts.brings.data_set = Some(self.short(field, name).await?),
            _ => self.parts.text = Some(self.collect(field, name, LONGEST_TEXT.min(self.limit)).await?),
        }
        Ok(())
    }

    /// Streams it to a file of its own.
    async fn vector(&mut self, mut field: Field<'_>) -> Result<(), Problem> {
        let name = file_name(&field);
        let extension = extension(&name)?;
        let file = self.service.upload(extension).map_err(Problem::from)?;
        let mut writer = tokio::fs::File::from_std(file.as_file().try_clone().map_err(unwritten)?);
        while let Some(piece) = field.chunk().await.map_err(unreadable)? {
            writer.write_all(&piece).await.map_err(unwritten)?;
            self.used.add(piece.len());
        }
        writer.flush().await.map_err(unwritten)?;
        self.parts.names = Some([name, ours(&file)]);
        self.parts.brings.vector = Some(Vector::Upload(file.into_temp_path()));
        Ok(())
    }

    async fn short(&self, field: Field<'_>, name: &str) -> Result<String, Problem> {
        let bytes = self.collect(field, name, LONGEST_NAME).await?;
        String::from_utf8(bytes)
            .map_err(|_| Problem::malformed(format!("part {name:?} is not text")).field(name))
    }

    async fn collect(&self, mut field: Field<'_>, name: &str, limit: u64) -> Result<Vec<u8>, Problem> {
        let mut bytes = vec![];
        while let Some(piece) = field.chunk().await.map_err(unreadable)? {
            if (bytes.len() + piece.len()) as u64 > limit {
                return Err(Problem::too_large(&format!("part {name:?}"), limit).field(name));
            }
            bytes.extend_from_slice(&piece);
            self.used.add(piece.len());
        }
        Ok(bytes)
    }
}

/// The last component of what the client calls the file, without anything that a terminal would
/// obey.
fn file_name(field: &Field<'_>) -> String {
    let given = field.file_name().unwrap_or_default();
    let last = given.rsplit(['/', '\\']).next().unwrap_or_default();
    last.chars()
        .filter(|c| !c.is_control())
        .take(LONGEST_NAME as usize)
        .collect()
}

fn extension(name: &str) -> Result<&'static str, Problem> {
    let found = name
        .rsplit_once('.')
        .map(|(_, extension)| extension.to_ascii_lowercase());
    let known = formats::EXTENSIONS
        .into_iter()
        .find(|known| found.as_deref() == Some(known));
    known.ok_or_else(|| {
        let (what, hint) = match found {
            Some(extension) => (
                format!(".{extension} is not a format that can be read"),
                formats::hint_for(&extension),
            ),
            None => (
                "the vector's part has no file name with an extension, which tells its format".into(),
                format!(
                    "send a file that ends in one of .{}",
                    formats::EXTENSIONS.join(", .")
                ),
            ),
        };
        Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media-type", what)
            .exit(Exit::InputUnusable)
            .field(VECTOR)
            .hint(hint)
    })
}

fn ours(file: &NamedTempFile) -> String {
    file.path().display().to_string()
}

fn unwritten(e: std::io::Error) -> Problem {
    Refusal::new(Kind::Storage, format!("the upload cannot be kept: {e}"))
        .field("state")
        .hint("make room in the state directory")
        .into()
}

/// What the reader of parts found, or what the stream under it did.
fn unreadable(error: multer::Error) -> Problem {
    if let multer::Error::StreamReadFailed(inner) = error {
        return match inner.downcast::<Problem>() {
            Ok(problem) => *problem,
            Err(_) => Problem::malformed("the body cannot be read"),
        };
    }
    Problem::malformed("the body is not well-formed multipart/form-data")
        .hint("send the parts as `curl -F` does")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_tells_the_format() {
        assert_eq!(extension("x.npy").unwrap(), "npy");
        assert_eq!(extension("a.b.SafeTensors").unwrap(), "safetensors");
        for name in ["", "npy", "x.pickle", "x.npy.gz"] {
            let problem = extension(name).unwrap_err();
            assert_eq!(
                (problem.status, problem.field.as_deref(), problem.exit_code),
                (415, Some("vector"), 7),
                "{name}"
            );
        }
    }
}
