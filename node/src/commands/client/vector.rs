//! A private vector as it is sent: it streams from the disk.

use std::path::Path;

use futures::stream::{self, StreamExt};
use hyper::body::Bytes;
use hyper::header::{self, HeaderValue};
use tokio::io::AsyncReadExt;

use crate::commands::client::connection::{Pieces, Sent};
use crate::reporting::failure::Failure;
use crate::reporting::input_file;
use crate::reporting::output_file::extension_of;
use crate::vector_file::formats;

/// Bytes of a file that are read at once.
const PIECE: usize = 256 << 10;

/// Opens a vector's file as the body of a request. Fails (exit 7) if it cannot be opened, or is of
/// no format that can be read.
pub(super) fn opened(path: &Path) -> Result<Sent, Failure> {
    let refused = |what: String, hint: &str| {
        let failure = Failure::input(format!("{}: {what}", path.display()));
        failure.field("--input").hint(hint)
    };
    let extension = extension_of(path).unwrap_or_default();
    let Some(media_type) = formats::media_type(&extension) else {
        let what = format!(".{extension} is not a format that can be read");
        return Err(refused(what, &formats::hint_for(&extension)));
    };
    let opened = input_file::open(path).and_then(|file| Ok((file.metadata()?, file)));
    let (metadata, file) = opened.map_err(|e| {
        let hint = "name a .npy, .csv, .json or .safetensors";
        refused(format!("cannot be opened: {e}"), hint)
    })?;
    Ok(Sent {
        headers: vec![(header::CONTENT_TYPE, HeaderValue::from_static(media_type))],
        body: Some((from_disk(file, metadata.len()), metadata.len())),
    })
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
    use futures::TryStreamExt;

    use super::*;
    use crate::reporting::failure::Exit;

    #[tokio::test]
    async fn a_file_is_sent_whole_with_its_media_type_and_length() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a \"b\".CSV");
        let contents: Vec<u8> = (0..PIECE + 7).map(|i| i as u8).collect();
        std::fs::write(&path, &contents).unwrap();
        let Sent { headers, body } = opened(&path).unwrap();
        let (pieces, length) = body.unwrap();
        let sent: Vec<u8> = pieces.map_ok(|piece| piece.to_vec()).try_concat().await.unwrap();
        assert_eq!(
            headers[0],
            (header::CONTENT_TYPE, HeaderValue::from_static("text/csv"))
        );
        assert!((length, sent) == (contents.len() as u64, contents));
    }

    #[test]
    fn what_is_no_vector_is_unusable_input() {
        let folder = tempfile::tempdir().unwrap();
        let folder_of_csv = folder.path().join("x.csv");
        std::fs::create_dir(&folder_of_csv).unwrap();
        std::fs::write(folder.path().join("x.key"), "").unwrap();
        for name in ["", "x.csv", "absent.npy", "x.key"] {
            let failure = opened(&folder.path().join(name)).err().unwrap();
            assert_eq!(failure.exit, Exit::InputUnusable, "{name}");
            assert_eq!(failure.field.as_deref(), Some("--input"));
        }
    }
}
