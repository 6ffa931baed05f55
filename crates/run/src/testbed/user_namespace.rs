//! Privileges over namespaces for users other than root.

use std::fs;
use std::io;
use std::sync::OnceLock;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};

use crate::testbed::namespace::Namespace;

/// The source of this process's privileges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privilege {
    /// It already had them.
    Own,
    /// It is now root in a user namespace of its own.
    UserNamespace,
}

/// Why this process cannot get the privileges.
#[derive(Debug, thiserror::Error)]
pub enum PrivilegeError {
    /// A process with several threads cannot change its user namespace.
    #[error("a user namespace must be entered before any thread is started, and there are {0}")]
    Threads(usize),
    /// The system does not allow user namespaces for this user.
    #[error(
        "network namespaces need root or user namespaces, and this system allows no user namespace \
         ({0}); run as root, or ask for `sysctl user.max_user_namespaces=10000` and, where they \
         exist, `kernel.unprivileged_userns_clone=1` and \
         `kernel.apparmor_restrict_unprivileged_userns=0`; in a container, for the right to unshare"
    )]
    Refused(io::Error),
    /// The user namespace exists, but gives no privileges.
    #[error(
        "a user namespace was made but gives no right to make network namespaces ({0}); a security \
         module forbids it: run as root, or ask for \
         `sysctl kernel.apparmor_restrict_unprivileged_userns=0`"
    )]
    Powerless(io::Error),
    /// Another error of the system.
    #[error("cannot {what} to enter a user namespace: {source}")]
    System {
        /// The operation.
        what: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

/// Set when this process has entered a user namespace.
static ENTERED: OnceLock<()> = OnceLock::new();

/// Gives this process the privileges to build testbeds, if it lacks them, by making it root in new
/// user and mount namespaces. Its user in the file system and its network namespace do not change,
/// so it keeps its access to both.
///
/// Must be called at the start of `main`, before any thread or asynchronous runtime is started.
///
/// # Errors
/// If there are threads, or the system does not allow it.
pub fn enter_user_namespace_if_needed() -> Result<Privilege, PrivilegeError> {
    let system = |what| move |source| PrivilegeError::System { what, source };
    if has_rights().map_err(system("read the capabilities"))? {
        return Ok(ENTERED.get().map_or(Privilege::Own, |()| Privilege::UserNamespace));
    }
    let threads = fs::read_dir("/proc/self/task").map_err(system("count threads"))?.count();
    if threads != 1 {
        return Err(PrivilegeError::Threads(threads));
    }
    let (user, group) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)
        .map_err(|error| PrivilegeError::Refused(error.into()))?;
    // Without this an ordinary user may not map groups; very old kernels lack it.
    match fs::write("/proc/self/setgroups", "deny") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => other.map_err(system("give up groups"))?,
    }
    fs::write("/proc/self/uid_map", format!("0 {user} 1")).map_err(system("map the user"))?;
    fs::write("/proc/self/gid_map", format!("0 {group} 1")).map_err(system("map the group"))?;
    // Mounts made here must not be visible outside.
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
        .map_err(|error| PrivilegeError::Powerless(error.into()))?;
    Namespace::new().map_err(PrivilegeError::Powerless)?;
    ENTERED.get_or_init(|| ());
    Ok(Privilege::UserNamespace)
}

/// Bits in the kernel's capability sets.
const CAP_NET_ADMIN: u32 = 12;
const CAP_NET_RAW: u32 = 13;
const CAP_SYS_ADMIN: u32 = 21;

/// Whether this process may create network namespaces, and links and raw sockets in them.
fn has_rights() -> io::Result<bool> {
    let status = fs::read_to_string("/proc/self/status")?;
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok())
        .ok_or_else(|| io::Error::other("/proc/self/status does not tell them"))?;
    let needed = [CAP_NET_ADMIN, CAP_NET_RAW, CAP_SYS_ADMIN];
    Ok(needed.iter().all(|capability| effective >> capability & 1 == 1))
}
