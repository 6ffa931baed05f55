//! Messages of the reliable channel, over which ESA's endpoints communicate with TCP.
//!
//! The reminder agent listens on TCP port [`PORT`]. Workers connect to it, and so does a PS that
//! runs in another process. A *frame* is a length and a body. All numbers are big-endian:
//!
//! | offset | bytes | field | |
//! | --- | --- | --- | --- |
//! | 0 | 4 | length | of the body: 1 to [`BODY_MAX`] |
//! | 4 | 1 | tag | type of the message |
//! | 5 | … | fields | in the order of the table below |
//!
//! | tag | message | fields after the tag (bytes) |
//! | --- | --- | --- |
//! | 1 | [`Hello`] | version (1), role (2), job (2), epoch (4), token (16) |
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
//! | 48 | [`FromServer::Entry`] | sequence (4), workers, flags (1): 1 float, 2 urgent |
//! | 49 | [`FromServer::Closed`] | sequence (4) |
//! | 50 | [`FromServer::Deliver`] | sequence (4), workers, values |
//! | 64 | [`ToServer::Missing`] | sequence (4), workers |
//! | 65 | [`ToServer::Partial`] | sequence (4), workers, flags (1): 4 marked, values |
//! | 66 | [`ToServer::Known`] | sequence (4), values |
//! | 67 | [`ToServer::Over`] | sequence (4) |
//! | 68 | [`ToServer::Finished`] | workers |
//!
//! *Values* are one byte that tells whether they are floats (0 or 1), then 1 to [`VALUES_MAX`]
//! 32-bit words up to the end of the body. The *role* is a worker's index, or 255 for the PS. Flags
//! that are not in the table are zero.
//!
//! The connecting peer sends [`Hello`] first and receives an [`Answer`]. Then each side sends the
//! messages of its direction. A body that is not exactly one message of the expected direction is
//! an [`Error`]. The side that detects an error closes the connection.
//!
//! [`split_frame`] splits a stream into bodies, [`Message::decode`] decodes one body, and
//! [`Message::encode`] encodes a whole frame.

mod code;
mod error;
mod hello;
mod messages;
mod values;

use bytes::{Buf, Bytes, BytesMut};

pub use error::Error;
pub use hello::{Answer, BadToken, Hello, Refusal, Role, TOKEN_LEN, Token};
pub use messages::{FromServer, FromWorker, ToServer, ToWorker};
pub use values::Values;

use crate::{VALUES_MAX, WORKERS_MAX};

/// The TCP port on which the agent listens.
pub const PORT: u16 = 29811;

/// Version of the format. Both sides must use the same version.
pub const VERSION: u8 = 4;

/// Length of the length field before each body, in bytes.
pub const LENGTH_LEN: usize = 4;

/// Length of the longest body, in bytes: a partial sum of the largest packet.
pub const BODY_MAX: usize =
    1 + 4 + (1 + WORKERS_MAX as usize / 8) + 1 + 1 + 4 * VALUES_MAX as usize;

/// Length of the body of a [`Hello`], in bytes. Until a peer has introduced itself, read no longer
/// body from it.
pub const HELLO_LEN: usize = 1 + 1 + 2 + 2 + 4 + TOKEN_LEN;

/// Tags of the messages with values.
pub const WITH_VALUES: [u8; 6] = [17, 18, 33, 50, 65, 66];

/// A message of the channel.
pub trait Message: Sized {
    /// Appends the message to `out` as a frame, including its length.
    fn encode(&self, out: &mut BytesMut);

    /// Decodes the body of a frame. The values share the memory of `body`; they are not copied.
    ///
    /// # Errors
    ///
    /// If the body is not exactly one message of this type.
    fn decode(body: Bytes) -> Result<Self, Error>;
}

/// Splits the next body off the front of the received bytes. `None` if the body is incomplete.
///
/// `longest` is the longest body that the caller accepts, in bytes. It is checked as soon as the
/// length has arrived, so a peer cannot make the caller buffer more.
///
/// # Errors
///
/// [`Error::Length`]. The stream is unusable after this error.
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
