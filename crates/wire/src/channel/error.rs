//! What can be wrong with a message.

/// Why bytes are no message of the channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// The length before the body is zero, or more than the receiver accepts.
    #[error("a message of {stated} bytes, where 1 to {longest} are accepted")]
    Length {
        /// What the peer stated.
        stated: u32,
        /// The longest body that was accepted.
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
    /// The peer speaks another version of the format.
    #[error("version {0} of the channel, expected {version}", version = super::VERSION)]
    Version(u8),
    /// The role is neither a worker's index nor the PS's number.
    #[error("there is no role {0}")]
    Role(u8),
    /// The epoch is zero.
    #[error("epoch 0 does not exist")]
    Epoch,
    /// The job's number is zero.
    #[error("job 0 does not exist")]
    Job,
    /// There is no such reason to refuse a peer.
    #[error("unknown refusal {0}")]
    Refusal(u8),
    /// A flag that means nothing in this message, or a truth value that is neither 0 nor 1.
    #[error("unknown flags in {0:#04x}")]
    Flags(u8),
    /// The values are not 1 to `VALUES_MAX` words of four bytes.
    #[error("{0} bytes of values")]
    Payload(usize),
}
