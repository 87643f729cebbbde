//! A client of the API that shares nothing with ours: HTTP/1.1 by hand, one connection a request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::Value;

/// No answer takes as long; a socket that is silent for longer fails the test.
const LONGEST: Duration = Duration::from_secs(300);

/// Where a daemon answers, and the token that it knows us by.
#[derive(Clone, Debug)]
pub struct Http {
    /// Where the API listens, as HOST:PORT or unix:PATH.
    pub address: String,
    /// Sent as `Authorization: Bearer`, if there is one.
    pub token: Option<String>,
}

/// An answer, read to its end.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The method of the request that it answers.
    pub method: String,
    /// The path of the request that it answers.
    pub path: String,
    /// The HTTP status of the answer.
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// Without its transfer coding.
    pub body: Vec<u8>,
}

impl Reply {
    /// The header of this name, which is written in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// The media type without its parameters.
    pub fn media_type(&self) -> &str {
        self.header("content-type")
            .unwrap_or_default()
            .split(';')
            .next()
            .unwrap_or_default()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("{} {}: {e}\n{}", self.method, self.path, self.text()))
    }

    /// The body as JSON after checking the status.
    #[track_caller]
    pub fn json_of(&self, status: u16) -> Value {
        assert_eq!(
            self.status,
            status,
            "{} {}\n{}",
            self.method,
            self.path,
            self.text()
        );
        self.json()
    }

    /// The problem of a refusal with this status, whose detail, field or hint says `about`.
    #[track_caller]
    pub fn refused(&self, status: u16, about: &str) -> Value {
        let problem = self.json_of(status);
        assert_eq!(self.media_type(), "application/problem+json", "{problem}");
        assert_eq!(problem["status"], status, "{problem}");
        assert!(
            problem.to_string().contains(about),
            "{problem} should speak of {about}"
        );
        problem
    }
}

trait Socket: Read + Write + Send {}
impl<T: Read + Write + Send> Socket for T {}

impl Http {
    /// This API without a token, or with another one.
    pub fn with_token(&self, token: Option<&str>) -> Http {
        Http {
            address: self.address.clone(),
            token: token.map(String::from),
        }
    }

    /// Sends a GET, and waits for the answer.
    pub fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, &[], &[])
    }

    /// A request with headers and a body, and its answer.
    pub fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        self.try_ask(method, path, headers, body)
            .unwrap_or_else(|e| panic!("{method} {path} at {}: {e}", self.address))
    }

    /// Hands in a plan (`application/json`) or a run file (`application/toml`).
    pub fn hand_in(&self, media_type: &str, body: &[u8]) -> Reply {
        self.ask("POST", "/v1/plans", &[("Content-Type", media_type)], body)
    }

    /// A request whose body is a vector, with its media type, or empty.
    pub fn bring(&self, method: &str, path: &str, vector: Option<(&str, &[u8])>) -> Reply {
        match vector {
            Some((media_type, body)) => self.ask(method, path, &[("Content-Type", media_type)], body),
            None => self.ask(method, path, &[], &[]),
        }
    }

    /// A request and its answer; fails if nobody answers.
    pub fn try_ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> std::io::Result<Reply> {
        let mut socket = self.connect()?;
        self.begin(&mut socket, method, path, headers, body.len())?;
        // A refusal may come before the body is taken; the answer is still there to read.
        let _ = socket.write_all(body).and_then(|()| socket.flush());
        let mut reader = BufReader::new(socket);
        let (status, headers) = read_head(&mut reader)?;
        let mut reply = Reply {
            method: method.into(),
            path: path.into(),
            status,
            headers,
            body: vec![],
        };
        let length = reply
            .header("content-length")
            .and_then(|text| text.parse::<u64>().ok());
        match length {
            Some(length) => reader.take(length).read_to_end(&mut reply.body)?,
            None if reply.header("transfer-encoding") == Some("chunked") => {
                read_chunks(&mut reader, |piece| {
                    reply.body.extend_from_slice(piece);
                    true
                })?
            }
            None => reader.read_to_end(&mut reply.body)?,
        };
        Ok(reply)
    }

    /// Reads server-sent events until one is wanted, or to the end; those that came, as (id, name,
    /// data).
    pub fn events(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        wanted: impl Fn(&Value) -> bool,
    ) -> Vec<(u64, String, Value)> {
        let mut socket = self.connect().expect("a connection");
        self.begin(&mut socket, "GET", path, headers, 0)
            .expect("a request");
        let mut reader = BufReader::new(socket);
        let (status, _) = read_head(&mut reader).expect("an answer");
        assert_eq!(status, 200, "GET {path}");
        let (mut text, mut events) = (String::new(), vec![]);
        let read = read_chunks(&mut reader, |piece| {
            text += &String::from_utf8_lossy(piece);
            while let Some(end) = text.find("\n\n") {
                let block: String = text.drain(..end + 2).collect();
                events.extend(event(&block));
            }
            !events.iter().any(|(_, _, data)| wanted(data))
        });
        read.expect("a whole stream");
        events
    }

    fn connect(&self) -> std::io::Result<Box<dyn Socket>> {
        Ok(match self.address.strip_prefix("unix:") {
            Some(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(LONGEST))?;
                Box::new(stream)
            }
            None => {
                let stream = TcpStream::connect(&self.address)?;
                stream.set_read_timeout(Some(LONGEST))?;
                Box::new(stream)
            }
        })
    }

    fn begin(
        &self,
        socket: &mut impl Write,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        length: usize,
    ) -> std::io::Result<()> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        if let Some(token) = &self.token {
            head += &format!("Authorization: Bearer {token}\r\n");
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        let chunked = headers
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case("transfer-encoding"));
        if !chunked && (length > 0 || method == "POST") {
            head += &format!("Content-Length: {length}\r\n");
        }
        socket.write_all((head + "\r\n").as_bytes())
    }
}

fn event(block: &str) -> Option<(u64, String, Value)> {
    let field = |name: &str| {
        block
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .map(str::trim)
    };
    let data = serde_json::from_str(field("data:")?).expect("an event is JSON");
    Some((
        field("id:")?.parse().expect("an id"),
        field("event:")?.to_owned(),
        data,
    ))
}

type Head = (u16, Vec<(String, String)>);

fn read_head(reader: &mut impl BufRead) -> std::io::Result<Head> {
    let mut line = || {
        let mut line = String::new();
        match reader.read_line(&mut line) {
            Ok(0) => Err(std::io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(line.trim_end().to_owned()),
            Err(e) => Err(e),
        }
    };
    let first = line()?;
    let status = first.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.ok_or_else(|| std::io::Error::other(format!("no status line: {first}")))?;
    let mut headers = vec![];
    loop {
        let line = line()?;
        let Some((name, value)) = line.split_once(':') else {
            return Ok((status, headers));
        };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
}

/// Gives each chunk to `take` until it has enough, or all are read.
fn read_chunks(reader: &mut impl BufRead, mut take: impl FnMut(&[u8]) -> bool) -> std::io::Result<usize> {
    let mut total = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let length = usize::from_str_radix(line.trim(), 16).map_err(std::io::Error::other)?;
        let mut chunk = vec![0; length + 2];
        reader.read_exact(&mut chunk)?;
        total += length;
        if length == 0 || !take(&chunk[..length]) {
            return Ok(total);
        }
    }
}
