//! What the command line says about access, in all commands alike.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, bail, ensure};

use crate::keys::{ClientKeys, ServerKeys};
use crate::listen::Listen;
use crate::policy::Policy;
use crate::remote::Remote;
use crate::server::Door;

/// Who may use a server.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct DoorArgs {
    /// Certificate of the server at a TCP address, as a PEM file; encrypts connections (TLS).
    #[arg(long, value_name = "FILE", requires = "serve_key")]
    pub serve_cert: Option<PathBuf>,
    /// The certificate's key.
    #[arg(long, value_name = "FILE", requires = "serve_cert")]
    pub serve_key: Option<PathBuf>,
    /// Let in only clients with a certificate from one of these roots (mutual TLS).
    #[arg(long, value_name = "FILE", requires = "serve_cert", conflicts_with = "allow_anyone")]
    pub serve_ca: Option<PathBuf>,
    /// File that lists clients, their roles and tenants (docs/operate/access.md). Without it, each
    /// client that is let in may do everything.
    #[arg(long, value_name = "FILE")]
    pub access: Option<PathBuf>,
    /// Let in anyone who reaches the TCP address, with full control.
    #[arg(long)]
    pub allow_anyone: bool,
}

impl DoorArgs {
    /// The way into a server at this address.
    ///
    /// # Errors
    /// One line, if the options contradict each other, let in more than they say, or name unusable files.
    pub fn door(&self, listen: &Listen) -> Result<Door> {
        let keys = match (listen, self.serve_cert.as_deref().zip(self.serve_key.as_deref())) {
            (_, None) => None,
            (Listen::Unix(_), Some(_)) => {
                bail!("{listen}: a Unix socket needs no TLS; leave out --serve-cert")
            }
            (Listen::Tcp(_), Some((certificate, key))) => {
                Some(ServerKeys::read(certificate, key, self.serve_ca.as_deref())?)
            }
        };
        if let Listen::Tcp(_) = listen {
            let mutual = keys.as_ref().is_some_and(|keys| keys.mutual);
            ensure!(
                mutual || self.allow_anyone,
                "{listen}: anyone who reaches this address would have full control; let in only holders of \
                 certificates (--serve-cert, --serve-key and --serve-ca), listen at unix:PATH, or allow it \
                 with --allow-anyone"
            );
            ensure!(
                mutual || self.access.is_none(),
                "--access tells clients apart by their certificates; add --serve-ca, or listen at unix:PATH"
            );
        }
        let policy = match &self.access {
            None => Policy::all_may_operate(),
            Some(path) => Policy::read(path).map_err(|error| anyhow!("--access {error}"))?,
        };
        Ok(Door { listen: listen.clone(), keys, policy })
    }
}

/// How a client shows who it is, and finds out who the server is.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct KeyArgs {
    /// Roots of the server's certificate, as a PEM file; encrypts the connection (TLS).
    #[arg(long, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
    /// Our certificate, for a server that wants one.
    #[arg(long, value_name = "FILE", requires_all = ["tls_key", "tls_ca"])]
    pub tls_cert: Option<PathBuf>,
    /// The certificate's key.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Name in the server's certificate, if it differs from the host of its address.
    #[arg(long, value_name = "NAME", requires = "tls_ca")]
    pub tls_name: Option<String>,
}

impl KeyArgs {
    /// The keys, if there are any.
    ///
    /// # Errors
    /// One line, if a file is unusable.
    pub fn client_keys(&self) -> Result<Option<Arc<ClientKeys>>> {
        let Some(roots) = &self.tls_ca else { return Ok(None) };
        let own = self.tls_cert.as_deref().zip(self.tls_key.as_deref());
        let keys = ClientKeys::read(roots, own, self.tls_name.as_deref())?;
        Ok(Some(Arc::new(keys)))
    }

    /// A server at an address, which an option names.
    ///
    /// # Errors
    /// One line, if it is no address, or a file is unusable.
    pub fn remote(&self, option: &str, address: &str) -> Result<Remote> {
        let keys = self.client_keys()?;
        let remote = Remote::new(address, keys).with_context(|| option.to_owned())?;
        remote.with_context(|| {
            format!("{option} {address}: it is not an address: write HOST:PORT or unix:PATH")
        })
    }
}
