//! Reads the page of another process.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::page::Format;

/// How long another process may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Longest page that is read.
const LONGEST: u64 = 16 << 20;

/// The page that a server at a Unix socket answers with.
///
/// # Errors
/// If it cannot be reached, or answers with something else.
pub(crate) fn fetch(socket: &Path, format: Format) -> io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let media = format.media_type();
    write!(
        stream,
        "GET /metrics HTTP/1.0\r\nHost: localhost\r\nAccept: {media}\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.take(LONGEST).read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::InvalidData)?;
    match head.split_whitespace().nth(1) {
        Some("200") => Ok(body.to_owned()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, head.to_owned())),
    }
}
