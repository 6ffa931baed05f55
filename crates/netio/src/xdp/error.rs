//! Why an AF_XDP socket could not be opened, and how to fix it.

use std::io;

use super::queue::{Failed, Step};
use crate::interface::InterfaceError;
use crate::packet;

/// Why an AF_XDP socket could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The interface does not exist, or a query fails.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// The UDP port cannot be reserved.
    #[error(transparent)]
    Port(#[from] packet::OpenError),
    /// The interface is down.
    #[error("network interface `{0}` is down; bring it up, for instance with `ip link set {0} up`")]
    Down(String),
    /// Capabilities are missing.
    #[error(
        "AF_XDP on `{0}` needs the capabilities CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF outside of \
         any user namespace; run as root, or give them to the program (`setcap \
         cap_net_admin,cap_net_raw,cap_bpf,cap_ipc_lock+ep PROGRAM`), or use AF_PACKET (`--io \
         packet`)"
    )]
    NotPermitted(String),
    /// The kernel was built without AF_XDP.
    #[error(
        "this kernel has no AF_XDP (CONFIG_XDP_SOCKETS, CONFIG_BPF_SYSCALL; Linux 5.10 or newer); \
         use AF_PACKET (`--io packet`)"
    )]
    Unsupported,
    /// Another XDP program is attached to the interface.
    #[error(
        "another XDP program is on network interface `{0}` already (`ip link show {0}` tells its \
         number); end the program that put it there, which may be another worker or switch, or \
         take it off with `ip link set {0} xdp off`"
    )]
    Attached(String),
    /// Another AF_XDP socket is bound to the queue.
    #[error(
        "another program has an AF_XDP socket on queue {queue} of network interface `{interface}`; \
         end that program"
    )]
    QueueTaken {
        /// The interface.
        interface: String,
        /// The queue.
        queue: u32,
    },
    /// Neither the driver nor the generic hook accepts a program.
    #[error(
        "network interface `{interface}` takes no XDP program, neither its driver ({native}) nor \
         the kernel for it ({generic}); use AF_PACKET (`--io packet`)"
    )]
    NoProgram {
        /// The interface.
        interface: String,
        /// The driver's error.
        native: io::Error,
        /// The generic hook's error.
        generic: io::Error,
    },
    /// The interface's frames do not fit.
    #[error(
        "network interface `{interface}` has an MTU of {mtu}, and AF_XDP takes at most {most} \
         there: longer frames need several buffers each (Linux 6.6 or newer, and with zero-copy a \
         driver that knows them); lower it with `ip link set {interface} mtu {most}`, or use \
         AF_PACKET (`--io packet`)"
    )]
    FramesTooLong {
        /// The interface.
        interface: String,
        /// Its MTU.
        mtu: usize,
        /// The maximum supported MTU.
        most: usize,
    },
    /// The process's limit of locked memory is too low.
    #[error(
        "AF_XDP on `{interface}` needs {} MiB of locked memory, more than this process may have; \
         raise the limit (`ulimit -l`, in a systemd unit `LimitMEMLOCK=`), or run as root",
        bytes.div_ceil(1 << 20)
    )]
    LockedMemory {
        /// The interface.
        interface: String,
        /// The required size in bytes.
        bytes: usize,
    },
    /// The kernel's verifier rejected the program: a bug in this crate.
    #[error("the kernel rejects the XDP program ({source}): {report}")]
    Rejected {
        /// The verifier's report.
        report: String,
        /// The error.
        source: io::Error,
    },
    /// Another error.
    #[error("cannot {what} on network interface `{interface}`: {source}")]
    System {
        /// The interface.
        interface: String,
        /// The attempted operation.
        what: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

impl OpenError {
    pub(super) fn of_system(interface: &str, what: &'static str, source: io::Error) -> Self {
        let interface = interface.to_owned();
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::NotPermitted(interface),
            Some(libc::ENETDOWN) => Self::Down(interface),
            Some(libc::EAFNOSUPPORT | libc::ENOSYS) => Self::Unsupported,
            _ => Self::System { interface, what, source },
        }
    }

    pub(super) fn of_attaching(interface: &str, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::EBUSY | libc::EEXIST) => Self::Attached(interface.to_owned()),
            _ => Self::of_system(interface, "attach an XDP program", source),
        }
    }

    pub(super) fn of_queue(interface: &str, queue: u32, bytes: usize, failed: Failed) -> Self {
        let Failed { step, error } = failed;
        match (step, error.raw_os_error()) {
            (Step::Register, Some(libc::ENOBUFS)) => {
                Self::LockedMemory { interface: interface.to_owned(), bytes }
            }
            (Step::Bind, Some(libc::EBUSY)) => {
                Self::QueueTaken { interface: interface.to_owned(), queue }
            }
            _ => {
                let what = match step {
                    Step::Open => "open an AF_XDP socket",
                    Step::Register => "register memory for AF_XDP",
                    Step::Rings => "make rings for AF_XDP",
                    Step::Bind => "bind an AF_XDP socket",
                };
                Self::of_system(interface, what, error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn os(code: i32) -> io::Error {
        io::Error::from_raw_os_error(code)
    }

    #[test]
    fn kernel_errors_are_explained_by_their_cause() {
        let queue = |step, code| {
            OpenError::of_queue("eth0", 3, 5 << 20, Failed { step, error: os(code) }).to_string()
        };
        let cases = [
            (queue(Step::Open, libc::EAFNOSUPPORT), "this kernel has no AF_XDP"),
            (queue(Step::Open, libc::EPERM), "needs the capabilities CAP_NET_ADMIN"),
            (queue(Step::Register, libc::ENOBUFS), "needs 5 MiB of locked memory"),
            (queue(Step::Rings, libc::ENOMEM), "cannot make rings for AF_XDP on network interface"),
            (queue(Step::Bind, libc::EBUSY), "another program has an AF_XDP socket on queue 3"),
            (queue(Step::Bind, libc::ENETDOWN), "network interface `eth0` is down"),
            (queue(Step::Bind, libc::EINVAL), "cannot bind an AF_XDP socket on network interface"),
            (OpenError::of_system("eth0", "load it", os(libc::ENOSYS)).to_string(), "this kernel"),
            (OpenError::of_attaching("eth0", os(libc::EEXIST)).to_string(), "another XDP program"),
            (OpenError::of_attaching("eth0", os(libc::EACCES)).to_string(), "needs the capab"),
        ];
        for (message, expected) in cases {
            assert!(message.contains(expected), "{message}");
            assert!(!message.contains('\n'), "one line: {message}");
        }
    }

    #[test]
    fn every_refusal_names_the_way_out() {
        let native = os(libc::EINVAL);
        let generic = os(libc::EOPNOTSUPP);
        let refused = OpenError::NoProgram { interface: "eth0".to_owned(), native, generic };
        let refused = refused.to_string();
        let both = ["Invalid argument", "Operation not supported", "--io packet"];
        assert!(both.into_iter().all(|part| refused.contains(part)), "{refused}");
        let long =
            OpenError::FramesTooLong { interface: "eth0".to_owned(), mtu: 9_000, most: 3_822 };
        let long = long.to_string();
        assert!(long.contains("MTU of 9000") && long.contains("eth0 mtu 3822"), "{long}");
    }
}
