//! Messages of the reliable channel: what ESA's endpoints tell each other over TCP.
//!
//! The reminder agent listens on TCP port [`PORT`]; workers, and a PS that is not in the agent's
//! process, connect to it. A *frame* is a length and a body; all numbers are big-endian:
//!
//! | offset | bytes | field | |
//! | --- | --- | --- | --- |
//! | 0 | 4 | length | of the body: 1 to [`BODY_MAX`] |
//! | 4 | 1 | tag | which message it is |
//! | 5 | … | fields | in the order of the table below |
//!
//! | tag | message | fields after the tag (bytes) |
//! | --- | --- | --- |
//! | 1 | [`Hello`] | version (1), role (1), job (2), epoch (4), token (16) |
//! | 2 | [`Answer::Welcome`] | |
//! | 3 | [`Answer::Refused`] | [`Refusal`] (1) |
//! | 16 | [`FromWorker::Remind`] | sequence (4) |
//! | 17 | [`FromWorker::Values`] | sequence (4), values |
//! | 18 | [`FromWorker::Result`] | sequence (4), values |
//! | 19 | [`FromWorker::NotSent`] | sequence (4) |
//! | 20 | [`FromWorker::Over`] | sequence (4) |
//! | 21 | [`FromWorker::Finished`] | sequence (4) |
//! | 32 | [`ToWorker::Query`] | sequence (4), flags (1): 1 float |
//! | 33 | [`ToWorker::Result`] | sequence (4), values |
//! | 34 | [`ToWorker::Dismissed`] | |
//! | 48 | [`FromServer::Entry`] | sequence (4), bitmap (4), flags (1): 1 float, 2 urgent |
//! | 49 | [`FromServer::Closed`] | sequence (4) |
//! | 50 | [`FromServer::Deliver`] | sequence (4), bitmap (4), values |
//! | 64 | [`ToServer::Missing`] | sequence (4), bitmap (4) |
//! | 65 | [`ToServer::Partial`] | sequence (4), bitmap (4), flags (1): 4 marked, values |
//! | 66 | [`ToServer::Known`] | sequence (4), values |
//! | 67 | [`ToServer::Over`] | sequence (4) |
//!
//! *Values* are one byte that says whether they are floats (0 or 1), then 1 to
//! [`VALUES_MAX`] 32-bit words up to the end of the body. The *role* is a worker's
//! index, or 255 for the PS. Flags that are not in the table are zero.
//!
//! Who connects says [`Hello`] first and gets an [`Answer`]; then each side sends the messages of its
//! direction. A body that is not exactly one message of the expected direction is an [`Error`]: the
//! peer is broken or no peer of ours, and whoever finds it closes the connection.
//!
//! [`split_frame`] cuts a stream into bodies, [`Message::decode`] reads one, [`Message::encode`]
//! writes a whole frame.

mod code;
mod error;
mod hello;
mod messages;

use bytes::{Buf, Bytes, BytesMut};

pub use error::Error;
pub use hello::{Answer, BadToken, Hello, Refusal, Role, TOKEN_LEN, Token};
pub use messages::{FromServer, FromWorker, ToServer, ToWorker, Values};

use crate::VALUES_MAX;

/// The TCP port on which the agent listens.
pub const PORT: u16 = 29811;

/// Version of the format; both sides must have the same.
pub const VERSION: u8 = 2;

/// Bytes of the length before each body.
pub const LENGTH_LEN: usize = 4;

/// Length of the longest body: a partial sum of the largest packet.
pub const BODY_MAX: usize = 1 + 4 + 4 + 1 + 1 + 4 * VALUES_MAX as usize;

/// Length of the body of a [`Hello`]: nothing else is to be read of a peer that has not said it.
pub const HELLO_LEN: usize = 1 + 1 + 1 + 2 + 4 + TOKEN_LEN;

/// A message of the channel.
pub trait Message: Sized {
    /// Appends the message to `out` as a frame, its length included.
    fn encode(&self, out: &mut BytesMut);

    /// Reads the body of a frame. Values are not copied: they share the memory of `body`.
    ///
    /// # Errors
    /// If the body is anything but one message of this type.
    fn decode(body: Bytes) -> Result<Self, Error>;
}

/// Takes the next body off the front of what has been received; `None` if it is not all there yet.
///
/// `longest` is the longest body that the caller accepts. It is checked as soon as the length is
/// there, so a peer cannot make the caller buffer more.
///
/// # Errors
/// [`Error::Length`]; the stream cannot be used any more then.
pub fn split_frame(received: &mut BytesMut, longest: usize) -> Result<Option<Bytes>, Error> {
    let Some(length) = received.first_chunk::<LENGTH_LEN>() else { return Ok(None) };
    let length = u32::from_be_bytes(*length);
    let body = usize::try_from(length).unwrap_or(usize::MAX);
    if body == 0 || body > longest {
        return Err(Error::Length { stated: length, longest });
    }
    if received.len() < LENGTH_LEN + body {
        return Ok(None);
    }
    received.advance(LENGTH_LEN);
    Ok(Some(received.split_to(body).freeze()))
}
