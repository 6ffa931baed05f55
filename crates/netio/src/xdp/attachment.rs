//! An XDP program on an interface.
//!
//! The program is attached through a BPF link, which is a descriptor of this process. When the
//! process ends, by any signal, the kernel closes the link, which detaches the program from the
//! interface. Program and map are then unreferenced.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use super::error::OpenError;
use super::program::{self, Action, Wanted};
use super::sys::bpf::{self, Mode};
use crate::interface::Interface;

/// A program, attached until this object is dropped.
#[derive(Debug)]
pub(super) struct Attachment {
    _link: OwnedFd,
    program: OwnedFd,
    sockets: OwnedFd,
    mode: Mode,
}

impl Attachment {
    /// Attaches a program that redirects the wanted frames of `interface` to sockets, which are
    /// [added](Self::add) later. It is attached to the driver or, if the driver does not support
    /// that, to the kernel's generic hook.
    pub(super) fn new(
        interface: &Interface,
        wanted: Wanted,
        queues: u32,
    ) -> Result<Self, OpenError> {
        let name = &interface.name;
        let sockets = bpf::create_socket_map(queues)
            .map_err(|error| OpenError::of_system(name, "make a map of sockets", error))?;
        let code = program::redirect(wanted, sockets.as_raw_fd(), Action::Pass);
        let program = bpf::load_program(&code).map_err(|refusal| {
            if refusal.report.is_empty() {
                OpenError::of_system(name, "load an XDP program", refusal.error)
            } else {
                OpenError::Rejected { report: refusal.report, source: refusal.error }
            }
        })?;
        let attach = |mode| bpf::attach(program.as_fd(), interface.index, mode);
        let (link, mode) = match attach(Mode::Native) {
            Ok(link) => (link, Mode::Native),
            Err(native) if is_final(&native) => {
                return Err(OpenError::of_attaching(name, native));
            }
            Err(native) => {
                tracing::info!(
                    interface = name,
                    error = %native,
                    "the driver takes no XDP program; the kernel runs it instead"
                );
                match attach(Mode::Generic) {
                    Ok(link) => (link, Mode::Generic),
                    Err(generic) if is_final(&generic) => {
                        return Err(OpenError::of_attaching(name, generic));
                    }
                    Err(generic) => {
                        return Err(OpenError::NoProgram {
                            interface: name.clone(),
                            native,
                            generic,
                        });
                    }
                }
            }
        };
        Ok(Self { _link: link, program, sockets, mode })
    }

    /// Redirects frames that arrive on `queue` to `socket` from now on.
    pub(super) fn add(&self, queue: u32, socket: &impl AsFd) -> io::Result<()> {
        bpf::set_socket(self.sockets.as_fd(), queue, socket.as_fd())
    }

    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    /// The program's ID in the system.
    pub(super) fn program_id(&self) -> io::Result<u32> {
        bpf::program_id(self.program.as_fd())
    }
}

/// Whether the other mode would fail for the same reason.
fn is_final(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::EBUSY | libc::EEXIST | libc::ENODEV))
}
