//! bpf(2): maps, programs, and their links to interfaces.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use crate::xdp::assembler::Instruction;

// Commands.
const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE: libc::c_int = 2;
const PROGRAM_LOAD: libc::c_int = 5;
#[cfg(test)]
const PROGRAM_TEST_RUN: libc::c_int = 10;
const OBJECT_INFO: libc::c_int = 15;
const LINK_CREATE: libc::c_int = 28;

/// A map from queues to AF_XDP sockets.
const MAP_OF_SOCKETS: u32 = 17;
const XDP_PROGRAM: u32 = 6;
const ATTACH_XDP: u32 = 37;
/// The program supports frames in several buffers.
const TAKES_FRAGMENTS: u32 = 1 << 5;

/// Required by the kernel: it determines the helper functions that a program may call.
const LICENSE: &CStr = c"Apache-2.0";
/// The name that tools show for the program and the map.
const NAME: [u8; 16] = *b"tributary\0\0\0\0\0\0\0";
/// Maximum length of the verifier's report in bytes.
const LOG: usize = 1 << 16;

/// Calls bpf(2) with one of its argument structures.
///
/// # Safety
///
/// `T` must have the layout of the arguments of `command`. Pointers in it must refer to memory with
/// the length given in the structure. The memory must be readable, or writable where the command
/// writes.
unsafe fn bpf<T>(command: libc::c_int, arguments: &mut T) -> io::Result<libc::c_int> {
    let size = libc::c_uint::try_from(size_of::<T>()).expect("arguments are small");
    // SAFETY: the kernel reads and writes at most `size` bytes, those of a live value. The caller
    // upholds the rest.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, ptr::from_mut(arguments), size) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    libc::c_int::try_from(result).map_err(io::Error::other)
}

/// Calls a command that returns a descriptor.
///
/// # Safety
///
/// As for [`bpf`].
unsafe fn bpf_descriptor<T>(command: libc::c_int, arguments: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: the caller upholds the contract of `bpf`. The kernel has just created this
    // close-on-exec descriptor, and it has no other owner.
    unsafe { Ok(OwnedFd::from_raw_fd(bpf(command, arguments)?)) }
}

#[repr(C)]
struct MapCreate {
    kind: u32,
    key_size: u32,
    value_size: u32,
    entries: u32,
    flags: u32,
    inner: u32,
    node: u32,
    name: [u8; 16],
}

/// Creates an empty map from the queues 0 to `queues` - 1 to AF_XDP sockets.
pub(in crate::xdp) fn create_socket_map(queues: u32) -> io::Result<OwnedFd> {
    let mut arguments = MapCreate {
        kind: MAP_OF_SOCKETS,
        key_size: 4,
        value_size: 4,
        entries: queues,
        flags: 0,
        inner: 0,
        node: 0,
        name: NAME,
    };
    // SAFETY: the layout is that of the command's arguments, and there are no pointers.
    unsafe { bpf_descriptor(MAP_CREATE, &mut arguments) }
}

#[repr(C)]
struct MapUpdate {
    map: u32,
    _padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// Stores the socket of a queue in a map.
pub(in crate::xdp) fn set_socket(
    map: BorrowedFd<'_>,
    queue: u32,
    socket: BorrowedFd<'_>,
) -> io::Result<()> {
    let descriptor = socket.as_raw_fd();
    let mut arguments = MapUpdate {
        map: map.as_raw_fd().cast_unsigned(),
        _padding: 0,
        key: ptr::from_ref(&queue) as u64,
        value: ptr::from_ref(&descriptor) as u64,
        flags: 0,
    };
    // SAFETY: the layout is that of the command's arguments. The pointers refer to a live key and
    // value of the sizes that such maps have, which the kernel reads.
    unsafe { bpf(MAP_UPDATE, &mut arguments) }.map(drop)
}

#[repr(C)]
struct ProgramLoad {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
}

/// Why loading a program failed.
#[derive(Debug)]
pub(in crate::xdp) struct LoadError {
    pub(in crate::xdp) error: io::Error,
    /// The report of the kernel's verifier, if it ran.
    pub(in crate::xdp) report: String,
}

/// Lets the kernel verify and compile an XDP program.
pub(in crate::xdp) fn load_program(code: &[Instruction]) -> Result<OwnedFd, LoadError> {
    let flags = match try_load(code, TAKES_FRAGMENTS, &mut []) {
        Ok(program) => return Ok(program),
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            return Err(LoadError { error, report: String::new() });
        }
        // Kernels before 5.18 have no frames in several buffers, so the flag is unnecessary there.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => 0,
        Err(_) => TAKES_FRAGMENTS,
    };
    // Load again to obtain the verifier's report.
    let mut log = vec![0; LOG];
    try_load(code, flags, &mut log).map_err(|error| {
        let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
        let report = String::from_utf8_lossy(&log[..end]).trim().to_owned();
        LoadError { error, report }
    })
}

fn try_load(code: &[Instruction], flags: u32, log: &mut [u8]) -> io::Result<OwnedFd> {
    let mut arguments = ProgramLoad {
        kind: XDP_PROGRAM,
        instructions: u32::try_from(code.len()).map_err(io::Error::other)?,
        code: code.as_ptr() as u64,
        license: LICENSE.as_ptr() as u64,
        log_level: u32::from(!log.is_empty()),
        log_size: u32::try_from(log.len()).map_err(io::Error::other)?,
        log: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
        kernel_version: 0,
        flags,
        name: NAME,
        interface: 0,
        attach_type: ATTACH_XDP,
    };
    // SAFETY: the layout is that of the command's arguments. The pointers refer to live
    // instructions in the kernel's layout and a zero-terminated string, which the kernel reads, and
    // to a buffer, possibly empty, which it writes.
    unsafe { bpf_descriptor(PROGRAM_LOAD, &mut arguments) }
}

/// The attachment mode of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::xdp) enum Mode {
    /// The driver runs it, on its own buffers.
    Native,
    /// The kernel's generic hook runs it, on any interface.
    Generic,
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}

/// Attaches a program to an interface of the calling thread's network namespace. The kernel
/// detaches it when the descriptor is closed for any reason.
pub(in crate::xdp) fn attach(
    program: BorrowedFd<'_>,
    interface: u32,
    mode: Mode,
) -> io::Result<OwnedFd> {
    let mut arguments = LinkCreate {
        program: program.as_raw_fd().cast_unsigned(),
        interface,
        attach_type: ATTACH_XDP,
        // XDP_FLAGS_DRV_MODE and XDP_FLAGS_SKB_MODE.
        flags: match mode {
            Mode::Native => 1 << 2,
            Mode::Generic => 1 << 1,
        },
    };
    // SAFETY: the layout is that of the command's arguments, and there are no pointers.
    unsafe { bpf_descriptor(LINK_CREATE, &mut arguments) }
}

#[repr(C)]
struct ObjectInfo {
    descriptor: u32,
    length: u32,
    info: u64,
}

/// A program's ID in the system.
pub(in crate::xdp) fn program_id(program: BorrowedFd<'_>) -> io::Result<u32> {
    // The first members of `struct bpf_prog_info`: type and ID.
    let mut info = [0_u32; 2];
    let mut arguments = ObjectInfo {
        descriptor: program.as_raw_fd().cast_unsigned(),
        length: u32::try_from(size_of_val(&info)).expect("it is small"),
        info: info.as_mut_ptr() as u64,
    };
    // SAFETY: the layout is that of the command's arguments. The pointer refers to a live buffer of
    // the given length, which the kernel fills at most.
    unsafe { bpf(OBJECT_INFO, &mut arguments) }?;
    Ok(info[1])
}

#[cfg(test)]
#[repr(C)]
#[derive(Default)]
struct TestRun {
    program: u32,
    answer: u32,
    input_size: u32,
    output_size: u32,
    input: u64,
    output: u64,
    repeat: u32,
    duration: u32,
    context_input_size: u32,
    context_output_size: u32,
    context_input: u64,
    context_output: u64,
    flags: u32,
    cpu: u32,
    batch: u32,
    _padding: u32,
}

/// Runs a program on a frame and returns its result.
#[cfg(test)]
pub(in crate::xdp) fn test_run(program: BorrowedFd<'_>, frame: &[u8]) -> io::Result<u32> {
    let mut arguments = TestRun {
        program: program.as_raw_fd().cast_unsigned(),
        input_size: u32::try_from(frame.len()).map_err(io::Error::other)?,
        input: frame.as_ptr() as u64,
        repeat: 1,
        ..TestRun::default()
    };
    // SAFETY: the layout is that of the command's arguments. The pointer refers to a live frame,
    // which the kernel reads.
    unsafe { bpf(PROGRAM_TEST_RUN, &mut arguments) }?;
    Ok(arguments.answer)
}
