//! What the command line says about access, in all commands alike.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, bail, ensure};

use crate::identity::Identity;
use crate::keys::ClientKeys;
use crate::listen::Listen;
use crate::policy::Policy;
use crate::remote::Remote;
use crate::server::Door;

/// Who may use a server.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct DoorArgs {
    /// File that lists clients, their roles and tenants (docs/operate/access.md).
    ///
    /// Without it, each client that is let in may do everything.
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE"))]
    pub access: Option<PathBuf>,
    /// Let in anyone who reaches the TCP address, with full control.
    #[cfg_attr(feature = "clap", arg(long))]
    pub allow_anyone: bool,
}

impl DoorArgs {
    /// The way into a server at this address. `elsewhere` tells whether the process uses its identity at other
    /// addresses, too.
    ///
    /// # Errors
    /// One line, if the options contradict each other, let in more than they say, or name unusable files.
    pub fn door(
        &self,
        listen: &Listen,
        identity: Option<&Identity>,
        elsewhere: bool,
    ) -> Result<Door> {
        let keys = match (listen, identity) {
            (_, None) => None,
            (Listen::Unix(_), Some(_)) if elsewhere => None,
            (Listen::Unix(_), Some(_)) => {
                bail!("{listen}: a Unix socket needs no TLS; leave out --identity")
            }
            (Listen::Tcp(_), Some(identity)) => {
                Some(identity.server(self.allow_anyone).with_context(|| listen.to_string())?)
            }
        };
        if let Listen::Tcp(_) = listen {
            let mutual = keys.as_ref().is_some_and(|keys| keys.mutual);
            ensure!(
                mutual || self.allow_anyone,
                "{listen}: anyone who reaches this address would have full control; let in only holders of \
                 certificates (--identity), listen at unix:PATH, or allow it with --allow-anyone"
            );
            ensure!(
                mutual || self.access.is_none(),
                "--access tells clients apart by their certificates; add --identity without --allow-anyone, or listen \
                 at unix:PATH"
            );
        }
        let policy = match &self.access {
            None => Policy::all_may_operate(),
            Some(path) => Policy::read(path).map_err(|error| anyhow!("--access {error}"))?,
        };
        Ok(Door { listen: listen.clone(), keys, policy })
    }
}

/// The identity of a server. No environment variable names it: servers listen with certificates only if their command line says so.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct IdentityArgs {
    /// Directory with the certificate of this process, its key, and the roots that it trusts, as `tributary certs`
    /// makes it (docs/operate/access.md); encrypts TCP connections (TLS).
    #[cfg_attr(feature = "clap", arg(long, value_name = "DIR"))]
    pub identity: Option<PathBuf>,
}

impl IdentityArgs {
    /// The identity, if there is one. Nothing is read.
    #[must_use]
    pub fn identity(&self) -> Option<Identity> {
        self.identity.as_deref().map(Identity::new)
    }

    /// Its keys as a client, if there are any, of servers with this name or the host of their addresses.
    ///
    /// # Errors
    /// One line, if a file is unusable.
    pub fn client_keys(&self, server_name: Option<&str>) -> Result<Option<Arc<ClientKeys>>> {
        Ok(self.identity().map(|identity| identity.client(server_name)).transpose()?)
    }
}

/// How a client shows who it is, and finds out who the server is.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct KeyArgs {
    /// Directory with the roots that we trust, and our certificate and key if the server wants one, as `tributary
    /// certs` makes it (docs/operate/access.md); encrypts TCP connections (TLS).
    #[cfg_attr(feature = "clap", arg(long, value_name = "DIR", env = "TRIBUTARY_IDENTITY"))]
    pub identity: Option<PathBuf>,
    /// Name in the server's certificate, if it differs from the host of its address.
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", requires = "identity"))]
    pub server_name: Option<String>,
}

impl KeyArgs {
    /// The keys, if there are any.
    ///
    /// # Errors
    /// One line, if a file is unusable.
    pub fn client_keys(&self) -> Result<Option<Arc<ClientKeys>>> {
        let own = IdentityArgs { identity: self.identity.clone() };
        own.client_keys(self.server_name.as_deref())
    }

    /// A server at an address, which an option names.
    ///
    /// # Errors
    /// One line, if it is no address, or a file is unusable.
    pub fn remote(&self, option: &str, address: &str) -> Result<Remote> {
        // The environment may name keys that this connection does not use.
        let keys = if encrypts(address) { self.client_keys()? } else { None };
        remote(option, address, keys)
    }
}

/// Whether connections to an address are encrypted if there is an identity.
#[must_use]
pub fn encrypts(address: &str) -> bool {
    !address.starts_with("unix:") && !address.starts_with("http://")
}

/// A server at an address, which an option names.
///
/// # Errors
/// One line, if it is no address, or the name in the server's certificate is not valid.
pub fn remote(option: &str, address: &str, keys: Option<Arc<ClientKeys>>) -> Result<Remote> {
    let remote = Remote::new(address, keys).with_context(|| option.to_owned())?;
    remote.with_context(|| {
        format!("{option} {address}: it is not an address: write HOST:PORT or unix:PATH")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certs;

    #[test]
    fn only_clients_that_the_options_name_get_in() {
        let directory = tempfile::tempdir().unwrap();
        certs::make(directory.path(), &["server=127.0.0.1".to_owned()], 30).unwrap();
        let own = directory.path().join("server");
        let identity = Identity::new(&own);
        let [tcp, unix] = ["127.0.0.1:0", "unix:/nowhere"].map(|at| at.parse::<Listen>().unwrap());
        let mutual = |args: &DoorArgs, listen: &Listen, identity: Option<&Identity>, elsewhere| {
            let door = args.door(listen, identity, elsewhere);
            let door = door.map_err(|error| format!("{error:#}"))?;
            Ok::<_, String>(door.keys.map(|keys| keys.mutual))
        };
        let open = DoorArgs { allow_anyone: true, ..DoorArgs::default() };
        let closed = DoorArgs::default();
        assert_eq!(mutual(&closed, &tcp, Some(&identity), false), Ok(Some(true)));
        assert_eq!(mutual(&open, &tcp, Some(&identity), false), Ok(Some(false)));
        assert_eq!(mutual(&open, &tcp, None, false), Ok(None));
        assert_eq!(mutual(&closed, &unix, None, false), Ok(None));
        // The process uses its identity at another address.
        assert_eq!(mutual(&closed, &unix, Some(&identity), true), Ok(None));
        let error = mutual(&closed, &unix, Some(&identity), false).unwrap_err();
        assert!(error.contains("leave out --identity"), "{error}");
        let error = mutual(&closed, &tcp, None, false).unwrap_err();
        assert!(error.contains("would have full control"), "{error}");
        let listed = DoorArgs { access: Some("/nowhere".into()), ..open.clone() };
        let error = mutual(&listed, &tcp, Some(&identity), false).unwrap_err();
        assert!(error.contains("by their certificates"), "{error}");

        std::fs::remove_file(own.join("ca.pem")).unwrap();
        let error = mutual(&closed, &tcp, Some(&identity), false).unwrap_err();
        assert!(error.contains("has no ca.pem") && error.contains("full control"), "{error}");
        assert_eq!(mutual(&open, &tcp, Some(&identity), false), Ok(Some(false)));
        std::fs::remove_file(own.join("key.pem")).unwrap();
        let error = mutual(&open, &tcp, Some(&identity), false).unwrap_err();
        assert!(error.contains("server/key.pem"), "{error}");
    }
}
