//! The limits of this process (`ulimit`).

use std::fs;
use std::io;

use crate::size;

/// Checks that this process may have as many files, sockets and pipes open at a time. `what` needs them.
///
/// # Errors
///
/// If the limit is lower, with the command that raises it.
pub fn descriptors(needed: u64, what: &str) -> io::Result<()> {
    let limit = limit("Max open files").unwrap_or(u64::MAX);
    enough_descriptors(limit, needed, what)
}

fn enough_descriptors(limit: u64, needed: u64, what: &str) -> io::Result<()> {
    if limit >= needed {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "the limit of open files is {limit}, and {what} needs {needed}; raise it with `ulimit -n {needed}`"
    )))
}

/// Checks that this process may have `more` bytes of address space than it has.
///
/// # Errors
///
/// If the limit is lower, with the command that raises it.
pub fn address_space(more: u64) -> io::Result<()> {
    match (limit("Max address space"), used_space()) {
        (Some(limit), Some(used)) => enough_space(limit, used, more),
        _ => Ok(()),
    }
}

fn enough_space(limit: u64, used: u64, more: u64) -> io::Result<()> {
    let needed = used.saturating_add(more);
    if limit >= needed {
        return Ok(());
    }
    // The next start may use a little more.
    let enough = needed.next_multiple_of(64 << 20);
    Err(io::Error::other(format!(
        "the limit of address space is {}, and this command needs {}; raise it with `ulimit -v {}`",
        size(limit),
        size(enough),
        enough >> 10
    )))
}

/// Bytes of address space that this process may still reserve; `None` without a limit.
pub(crate) fn space_left() -> Option<u64> {
    Some(limit("Max address space")?.saturating_sub(used_space()?))
}

/// A limit in force; `None` if there is none, or it is not known.
fn limit(name: &str) -> Option<u64> {
    soft(&fs::read_to_string("/proc/self/limits").ok()?, name)
}

/// Parses a line such as `Max open files    1024    1048576    files`.
fn soft(limits: &str, name: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The address space of this process in bytes.
fn used_space() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1 << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_reports_limits() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max open files            1024                 1048576              files     \n\
                      Max address space         unlimited            unlimited            bytes     \n";
        assert_eq!(soft(limits, "Max open files"), Some(1024));
        assert_eq!(soft(limits, "Max address space"), None);
        assert_eq!(soft(limits, "Max something else"), None);
        assert!(limit("Max open files").is_some());
        assert!(used_space().is_some_and(|used| used > 1 << 20));
    }

    #[test]
    fn the_need_is_named() {
        assert!(enough_descriptors(40, 40, "this run").is_ok());
        assert_eq!(
            enough_descriptors(32, 40, "this run").unwrap_err().to_string(),
            "the limit of open files is 32, and this run needs 40; raise it with `ulimit -n 40`"
        );
        assert!(enough_space(3 << 20, 1 << 20, 2 << 20).is_ok());
        assert_eq!(
            enough_space(64 << 20, 60 << 20, 768 << 20).unwrap_err().to_string(),
            "the limit of address space is 64.0 MiB, and this command needs 832.0 MiB; raise it with \
             `ulimit -v 851968`"
        );
    }
}
