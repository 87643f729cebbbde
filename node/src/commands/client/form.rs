//! multipart/form-data as it is sent: files stream from the disk.

use std::path::Path;

use futures::stream::{self, StreamExt};
use hyper::body::Bytes;
use hyper::header;
use rand::RngExt;
use tokio::io::AsyncReadExt;

use crate::commands::client::connection::{Pieces, Sent};
use crate::telling::failure::Failure;
use crate::telling::input_file;

/// Bytes of a file that are read at once.
const PIECE: usize = 256 << 10;

/// Parts that wait to be sent.
pub(super) struct Form {
    boundary: String,
    pieces: Vec<Pieces>,
    length: u64,
}

impl Form {
    /// A form without parts.
    pub(super) fn new() -> Self {
        // 128 random bits stand in no file.
        let boundary = format!("undertone-{:032x}", rand::rng().random::<u128>());
        Form {
            boundary,
            pieces: vec![],
            length: 0,
        }
    }

    /// Adds a short text.
    pub(super) fn text(mut self, name: &str, value: &str) -> Self {
        self.head(name, "", "");
        self.push(value.to_owned());
        self
    }

    /// Adds what was read from a file.
    pub(super) fn contents(mut self, name: &str, path: &Path, contents: Vec<u8>) -> Self {
        self.head(name, &file_name(path), "application/octet-stream");
        self.push(contents);
        self
    }

    /// Adds a file that is read as it is sent; its name's extension tells the format. Fails
    /// (exit 7) if it cannot be opened.
    pub(super) fn file(mut self, name: &str, path: &Path) -> Result<Self, Failure> {
        let refused = |what: String| Failure::input(format!("{}: {what}", path.display())).field("--input");
        let opened = input_file::open(path).and_then(|file| Ok((file.metadata()?, file)));
        let (metadata, file) = opened.map_err(|e| {
            refused(format!("cannot be opened: {e}")).hint("name a .npy, .csv, .json or .safetensors")
        })?;
        self.head(name, &file_name(path), "application/octet-stream");
        self.length += metadata.len();
        self.pieces.push(from_disk(file, metadata.len()));
        Ok(self)
    }

    fn head(&mut self, name: &str, file_name: &str, media_type: &str) {
        let mut head = if self.pieces.is_empty() {
            String::new()
        } else {
            "\r\n".to_owned()
        };
        head += &format!(
            "--{}\r\nContent-Disposition: form-data; name=\"{name}\"",
            self.boundary
        );
        if !media_type.is_empty() {
            head += &format!("; filename=\"{file_name}\"\r\nContent-Type: {media_type}");
        }
        self.push(head + "\r\n\r\n");
    }

    fn push(&mut self, bytes: impl Into<Bytes>) {
        let bytes = bytes.into();
        self.length += bytes.len() as u64;
        self.pieces.push(stream::once(async { Ok(bytes) }).boxed());
    }

    /// The request's headers and body.
    pub(super) fn sent(mut self) -> Sent {
        self.push(format!("\r\n--{}--\r\n", self.boundary));
        let media_type = format!("multipart/form-data; boundary={}", self.boundary);
        let media_type = media_type.parse().expect("a boundary is visible ASCII");
        let body = stream::iter(self.pieces).flatten().boxed();
        Sent {
            headers: vec![(header::CONTENT_TYPE, media_type)],
            body: Some((body, self.length)),
        }
    }
}

/// The last component, quoted as browsers do (WHATWG HTML, multipart/form-data).
fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

/// As long as it was when it was opened.
fn from_disk(file: std::fs::File, length: u64) -> Pieces {
    let file = tokio::fs::File::from_std(file);
    stream::try_unfold((file, length), async |(mut file, left)| {
        if left == 0 {
            return Ok(None);
        }
        let mut piece = vec![0; PIECE.min(usize::try_from(left).unwrap_or(PIECE))];
        let read = file.read(&mut piece).await?;
        if read == 0 {
            return Err(std::io::Error::other("the file became shorter while it was read"));
        }
        piece.truncate(read);
        Ok(Some((Bytes::from(piece), (file, left - read as u64))))
    })
    .boxed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::TryStreamExt;

    #[tokio::test]
    async fn a_form_is_as_long_as_it_says_and_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a \"b\".npy");
        let contents: Vec<u8> = (0..PIECE + 7).map(|i| i as u8).collect();
        std::fs::write(&path, &contents).unwrap();
        let form = Form::new()
            .contents("plan", Path::new("p/plan.json"), b"{}".to_vec())
            .text("data_set", "ward");
        let Sent { headers, body } = form.file("vector", &path).unwrap().sent();
        let (pieces, length) = body.unwrap();
        let sent: Vec<u8> = pieces.map_ok(|piece| piece.to_vec()).try_concat().await.unwrap();
        assert_eq!(sent.len() as u64, length);
        let boundary = multer::parse_boundary(headers[0].1.to_str().unwrap()).unwrap();
        let mut parts =
            multer::Multipart::new(stream::once(async { Ok::<_, std::io::Error>(sent) }), boundary);
        let mut read = vec![];
        while let Some(field) = parts.next_field().await.unwrap() {
            let name = (
                field.name().unwrap().to_owned(),
                field.file_name().map(str::to_owned),
            );
            read.push((name, field.bytes().await.unwrap().to_vec()));
        }
        let part = |name: &str, file: Option<&str>, bytes: &[u8]| {
            ((name.to_owned(), file.map(str::to_owned)), bytes.to_vec())
        };
        let expected = [
            part("plan", Some("plan.json"), b"{}"),
            part("data_set", None, b"ward"),
            part("vector", Some("a %22b%22.npy"), &contents),
        ];
        assert!(
            read == expected,
            "{:?}",
            read.iter().map(|(name, _)| name).collect::<Vec<_>>()
        );
    }

    #[test]
    fn what_is_no_file_is_unusable_input() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path().to_owned(), folder.path().join("absent.npy")] {
            assert_eq!(
                Form::new()
                    .file("vector", &path)
                    .err()
                    .map(|failure| failure.exit),
                Some(crate::telling::failure::Exit::InputUnusable)
            );
        }
    }
}
