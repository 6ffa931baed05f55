//! Addresses of servers.

use std::fmt;
use std::fs::DirBuilder;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use nix::unistd::Uid;
use tokio::net::{UnixListener, UnixStream};

/// The address of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Listen {
    /// On a TCP socket; port 0 takes a free one.
    Tcp(SocketAddr),
    /// On a Unix socket with this path. It is removed when the server stops.
    Unix(PathBuf),
}

/// The text is neither kind of address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("write ADDRESS:PORT or unix:PATH")]
pub struct BadAddress;

impl FromStr for Listen {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        match text.strip_prefix("unix:") {
            Some("") => Err(BadAddress),
            Some(path) => Ok(Self::Unix(path.into())),
            None => text.parse().map(Self::Tcp).map_err(|_| BadAddress),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The Unix socket at which a service of this name listens if nothing else is said: in `/run/tributary` for
/// root, and in a directory of their own for other users.
#[must_use]
pub fn standard(service: &str) -> Listen {
    Listen::Unix(standard_path(service))
}

fn standard_path(service: &str) -> PathBuf {
    let user = Uid::effective();
    let directory = match std::env::var_os("XDG_RUNTIME_DIR") {
        _ if user.is_root() => PathBuf::from("/run/tributary"),
        Some(own) => PathBuf::from(own).join("tributary"),
        None => std::env::temp_dir().join(format!("tributary-{user}")),
    };
    directory.join(format!("{service}.sock"))
}

/// Whether a path is the standard one of a service, which only this user's servers, or root's, may use.
pub(crate) fn is_standard(path: &Path) -> bool {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    *path == *standard_path(&name)
}

/// Another user may have made the directory before.
fn check_own(directory: &Path) -> io::Result<()> {
    let found = std::fs::symlink_metadata(directory)?;
    let own = found.uid() == Uid::effective().as_raw() && found.mode() & 0o022 == 0;
    if found.is_dir() && own {
        return Ok(());
    }
    let what = format!("others can write in {}, or it is another user's", directory.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
}

/// Binds a Unix socket, replacing one that a killed server left behind. Others than this user may connect
/// only if it is `open`.
///
/// # Errors
/// If the path cannot be used, or another server listens there.
pub async fn bind(path: &Path, open: bool) -> io::Result<UnixListener> {
    if let Some(directory) = path.parent().filter(|_| is_standard(path)) {
        // Other users reach only open sockets in it.
        DirBuilder::new().recursive(true).mode(0o755).create(directory)?;
        check_own(directory)?;
    }
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let socket = std::fs::symlink_metadata(path)?.file_type().is_socket();
            let dead = UnixStream::connect(path).await.err();
            let dead = dead.is_some_and(|why| why.kind() == io::ErrorKind::ConnectionRefused);
            if !socket || !dead {
                return Err(error);
            }
            std::fs::remove_file(path)?;
            UnixListener::bind(path)?
        }
        other => other?,
    };
    let mode = if open { 0o666 } else { 0o600 };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    Ok(listener)
}
