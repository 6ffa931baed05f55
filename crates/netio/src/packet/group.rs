//! Several sockets that share the frames of an interface, one for each core of a switch.

use super::{OpenError, PacketSocket, sys};
use crate::filter;
use crate::port::{Config, Traffic};

/// How the kernel shares out frames among several sockets: by a word of the datagrams to a port. All
/// other frames go to the first socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The destination port of UDP over IPv4, in packets without options.
    pub port: u16,
    /// Offset of the word in a frame without tags, big-endian, in bytes.
    pub offset: u32,
    /// How many low bits of it do not matter. The rest, modulo the number of sockets, is the number
    /// of the socket.
    pub shift: u32,
}

impl PacketSocket {
    /// Opens several sockets for the same interface, as [`open`](Self::open), or
    /// [`open_for_super_frames`](Self::open_for_super_frames), opens one. Each frame arrives at one
    /// of them, and each can send. Of a super-frame, the first datagram counts.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    ///
    /// # Panics
    ///
    /// If the configuration is not that of a switch port, or `count` is 0.
    pub fn open_group(
        config: &Config,
        super_frames: bool,
        count: usize,
        share: Share,
    ) -> Result<Vec<Self>, OpenError> {
        assert!(config.traffic == Traffic::All && count > 0, "for switch ports");
        let failed = |what: &'static str| {
            move |source| OpenError::System { interface: config.interface.clone(), what, source }
        };
        let open = |_| Self::open_with(config, super_frames, true);
        let sockets = (0..count).map(open).collect::<Result<Vec<_>, _>>()?;
        let program = filter::word(share.port, share.offset, share.shift);
        let (first, others) = sockets.split_first().expect("there is one");
        let group =
            sys::found_group(&first.socket, &program).map_err(failed("create a fanout group"))?;
        for socket in others {
            sys::join_group(&socket.socket, group).map_err(failed("join a fanout group"))?;
        }
        // Until now each socket would have received each frame.
        for socket in &sockets {
            sys::detach_filter(&socket.socket).map_err(failed("detach a filter"))?;
        }
        Ok(sockets)
    }
}
