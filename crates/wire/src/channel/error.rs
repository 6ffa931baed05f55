//! Errors in messages.

/// Why bytes are not a valid message of the channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// The stated length is zero or exceeds the receiver's limit.
    #[error("a message of {stated} bytes, where 1 to {longest} are accepted")]
    Length {
        /// The length that the peer stated, in bytes.
        stated: u32,
        /// The receiver's limit, in bytes.
        longest: usize,
    },
    /// No message of the expected direction has this tag.
    #[error("unexpected message tag {0}")]
    Tag(u8),
    /// The body ends before the message does.
    #[error("the message ends {0} bytes early")]
    Truncated(usize),
    /// The message ends before the body does.
    #[error("{0} bytes too many behind the message")]
    Trailing(usize),
    /// The peer uses another version of the format.
    #[error("version {0} of the channel, expected {version}", version = super::VERSION)]
    Version(u8),
    /// The role is neither a worker's index nor 65 535 for the PS.
    #[error("there is no role {0}")]
    Role(u16),
    /// The epoch is zero.
    #[error("epoch 0 does not exist")]
    Epoch,
    /// The job number is zero.
    #[error("job 0 does not exist")]
    Job,
    /// The code of the refusal is unknown.
    #[error("unknown refusal {0}")]
    Refusal(u8),
    /// An unknown flag is set, or a boolean is neither 0 nor 1.
    #[error("unknown flags in {0:#04x}")]
    Flags(u8),
    /// A set of workers is longer than it can be, or than it has to be.
    #[error("a set of workers of {0} words")]
    Workers(u8),
    /// The payload is not 1 to `VALUES_MAX` four-byte words.
    #[error("{0} bytes of values")]
    Payload(usize),
}
