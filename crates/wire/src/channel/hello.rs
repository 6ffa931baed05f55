//! The handshake: a peer introduces itself, and the agent admits or refuses it.

use std::fmt;
use std::hint::black_box;
use std::str::FromStr;

use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};

use super::code::{Reader, frame};
use super::{Error, Message, VERSION};
use crate::{Epoch, JobId, WorkerIndex};

/// Length of a token in bytes.
pub const TOKEN_LEN: usize = 16;

const HELLO: u8 = 1;
const WELCOME: u8 = 2;
const REFUSED: u8 = 3;

/// The role byte of the PS.
const SERVER: u16 = u16::MAX;

/// Authenticates the endpoints of a job: random bytes.
///
/// Comparison takes constant time, and [`Debug`](fmt::Debug) hides the bytes. Files and environments have it in
/// [hexadecimal digits](Self::to_hex).
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Token(pub [u8; TOKEN_LEN]);

impl From<Token> for String {
    fn from(token: Token) -> Self {
        token.to_hex()
    }
}

impl TryFrom<String> for Token {
    type Error = BadToken;

    fn try_from(text: String) -> Result<Self, BadToken> {
        text.parse()
    }
}

impl Token {
    /// 32 hexadecimal digits. They reveal the secret.
    #[must_use]
    pub fn to_hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl PartialEq for Token {
    fn eq(&self, other: &Self) -> bool {
        // Compare every byte. `black_box` keeps the compiler from adding an early exit.
        let pairs = self.0.iter().zip(&other.0);
        pairs.fold(0, |seen, (a, b)| black_box(seen | (a ^ b))) == 0
    }
}

impl Eq for Token {}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(hidden)")
    }
}

/// Error: the text is not a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a token is {digits} hexadecimal digits", digits = 2 * TOKEN_LEN)]
pub struct BadToken;

impl FromStr for Token {
    type Err = BadToken;

    fn from_str(text: &str) -> Result<Self, BadToken> {
        let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return Err(BadToken) };
        let pairs: &[[u8; 2]; TOKEN_LEN] = pairs.try_into().map_err(|_| BadToken)?;
        let mut token = [0; TOKEN_LEN];
        for (byte, pair) in token.iter_mut().zip(pairs) {
            let digit = |digit: u8| char::from(digit).to_digit(16).ok_or(BadToken);
            *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        Ok(Self(token))
    }
}

/// The role of a peer in its job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// The worker with this index.
    Worker(WorkerIndex),
    /// The PS.
    Server,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Worker(index) => write!(f, "worker {index}"),
            Self::Server => f.write_str("PS"),
        }
    }
}

/// The first message on a connection, sent by the peer that connects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// The job.
    pub job: JobId,
    /// The run of the job.
    pub epoch: Epoch,
    /// The peer's role in the job.
    pub role: Role,
    /// The job's secret.
    pub token: Token,
}

impl Message for Hello {
    fn encode(&self, out: &mut BytesMut) {
        frame(out, HELLO, |out| {
            out.put_u8(VERSION);
            out.put_u16(match self.role {
                Role::Worker(index) => index.get(),
                Role::Server => SERVER,
            });
            out.put_u16(self.job.get());
            out.put_u32(self.epoch.get());
            out.put_slice(&self.token.0);
        });
    }

    fn decode(body: Bytes) -> Result<Self, Error> {
        let (HELLO, mut reader) = Reader::open(body.clone())? else {
            return Err(Error::Tag(body[0]));
        };
        let version = reader.byte()?;
        if version != VERSION {
            // The layout of other versions is unknown.
            return Err(Error::Version(version));
        }
        let role = match u16::from_be_bytes(reader.array()?) {
            SERVER => Role::Server,
            index => Role::Worker(WorkerIndex::new(index).ok_or(Error::Role(index))?),
        };
        let job = JobId::new(u16::from_be_bytes(reader.array()?)).ok_or(Error::Job)?;
        let epoch = u32::from_be_bytes(reader.array()?);
        let epoch = Epoch::new(epoch).ok_or(Error::Epoch)?;
        let token = Token(reader.array()?);
        reader.end(Self { job, epoch, role, token })
    }
}

/// Why the agent refuses a peer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum Refusal {
    /// The first message was not a [`Hello`], or has another version.
    #[error("it does not understand the greeting; are both of the same version?")]
    Hello = 1,
    /// The agent does not serve the job.
    #[error("it does not serve the job")]
    Job = 2,
    /// The token does not match the job's token.
    #[error("the token is not the job's")]
    Token = 3,
    /// The job has no such worker, or its PS runs in the agent's process.
    #[error("the job has no such peer")]
    Role = 4,
    /// The agent serves another run of the job.
    #[error("it serves another run of the job")]
    Run = 5,
}

impl Refusal {
    /// Decodes the message's byte.
    const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Hello),
            2 => Some(Self::Job),
            3 => Some(Self::Token),
            4 => Some(Self::Role),
            5 => Some(Self::Run),
            _ => None,
        }
    }
}

/// The agent's answer to a [`Hello`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The peer is admitted.
    Welcome,
    /// The peer is refused, and the agent closes the connection.
    Refused(Refusal),
}

impl Message for Answer {
    fn encode(&self, out: &mut BytesMut) {
        match *self {
            Self::Welcome => frame(out, WELCOME, |_| {}),
            Self::Refused(refusal) => frame(out, REFUSED, |out| out.put_u8(refusal as u8)),
        }
    }

    fn decode(body: Bytes) -> Result<Self, Error> {
        let (tag, mut reader) = Reader::open(body)?;
        let answer = match tag {
            WELCOME => Self::Welcome,
            REFUSED => {
                let byte = reader.byte()?;
                Self::Refused(Refusal::from_byte(byte).ok_or(Error::Refusal(byte))?)
            }
            tag => return Err(Error::Tag(tag)),
        };
        reader.end(answer)
    }
}
