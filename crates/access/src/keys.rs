//! Certificates and keys.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::expiry;
use crate::fresh::Fresh;
use crate::pem::{at, certificates, private};

/// HTTP/2, over which gRPC is.
const PROTOCOL: &[u8] = b"h2";

/// Certificates or keys are unusable.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("cannot use the TLS certificates: {0}")]
pub struct KeyError(pub String);

/// A server's certificate, and the roots of its clients' certificates.
#[derive(Debug)]
pub struct ServerKeys {
    config: Fresh<Arc<ServerConfig>>,
    /// Whether clients must have a certificate.
    pub mutual: bool,
    /// One of the names that clients' certificates must have; empty: any.
    clients: Arc<[String]>,
}

/// What a client trusts, and its certificate.
#[derive(Debug)]
pub struct ClientKeys {
    config: Fresh<Arc<ClientConfig>>,
    /// The name in servers' certificates, if it differs from the host in their addresses.
    pub(crate) name: Option<String>,
}

impl ServerKeys {
    /// Reads PEM files: the server's certificate, with intermediate ones, and its key. With `clients`, the
    /// roots of clients' certificates, each client must have one.
    ///
    /// # Errors
    /// If a file cannot be read or is invalid.
    pub fn read(certificate: &Path, key: &Path, clients: Option<&Path>) -> Result<Self, KeyError> {
        let files = [Some(certificate), Some(key), clients];
        let files: Vec<PathBuf> = files.into_iter().flatten().map(Path::to_owned).collect();
        let own = (certificate.to_owned(), key.to_owned());
        let clients = clients.map(Path::to_owned);
        let mutual = clients.is_some();
        let read = move || server(&own.0, &own.1, clients.as_deref()).map(Arc::new);
        let config = Fresh::new(files, read).map_err(KeyError)?;
        Ok(Self { config, mutual, clients: Arc::default() })
    }

    /// The same for clients whose certificates have one of these names. Without names, for all clients.
    #[must_use]
    pub fn only(self, names: impl IntoIterator<Item = String>) -> Self {
        Self { clients: names.into_iter().collect(), ..self }
    }

    pub(crate) fn clients(&self) -> Arc<[String]> {
        Arc::clone(&self.clients)
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        self.config.get()
    }
}

impl ClientKeys {
    /// Reads PEM files: the roots of servers' certificates and, for servers that want one, the client's
    /// certificate and its key. `name` is the name in servers' certificates, if it differs from the host
    /// in their addresses.
    ///
    /// # Errors
    /// If a file cannot be read or is invalid.
    pub fn read(
        roots: &Path,
        own: Option<(&Path, &Path)>,
        name: Option<&str>,
    ) -> Result<Self, KeyError> {
        let own = own.map(|(certificate, key)| (certificate.to_owned(), key.to_owned()));
        let mut files = vec![roots.to_owned()];
        files.extend(own.iter().flat_map(|(certificate, key)| [certificate.clone(), key.clone()]));
        let trusted = roots.to_owned();
        let read = move || client(&trusted, own.as_ref()).map(Arc::new);
        let config = Fresh::new(files, read).map_err(KeyError)?;
        Ok(Self { config, name: name.map(str::to_owned) })
    }

    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        self.config.get()
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn server(certificate: &Path, key: &Path, clients: Option<&Path>) -> Result<ServerConfig, String> {
    let builder = ServerConfig::builder_with_provider(provider());
    let builder = builder.with_safe_default_protocol_versions().map_err(text)?;
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let roots = Arc::new(roots(path)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider());
            builder.with_client_cert_verifier(verifier.build().map_err(|error| at(path, error))?)
        }
    };
    let own = builder.with_single_cert(certificates(certificate)?, private(key)?);
    expiry::note(certificate);
    let mut config = own.map_err(|error| mismatch(certificate, key, &error))?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(config)
}

fn client(trusted: &Path, own: Option<&(PathBuf, PathBuf)>) -> Result<ClientConfig, String> {
    let builder = ClientConfig::builder_with_provider(provider());
    let builder = builder.with_safe_default_protocol_versions().map_err(text)?;
    let builder = builder.with_root_certificates(roots(trusted)?);
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let own = builder.with_client_auth_cert(certificates(certificate)?, private(key)?);
            expiry::note(certificate);
            own.map_err(|error| mismatch(certificate, key, &error))?
        }
    };
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(config)
}

fn roots(path: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| at(path, error))?;
    }
    Ok(roots)
}

fn text(error: rustls::Error) -> String {
    error.to_string()
}

fn mismatch(certificate: &Path, key: &Path, error: &rustls::Error) -> String {
    format!("{} with the key {}: {error}", certificate.display(), key.display())
}
