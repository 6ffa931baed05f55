//! Encrypted connections to switches and controllers.

use std::path::Path;

use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};
use tributary_limits::FileLimit;

use crate::client::root_cause;
use crate::error::Error;

/// Certificates or a key: a complete bundle of public roots has 200 KB.
const PEM: FileLimit = FileLimit::new("PEM file", 4 << 20);

/// Trusted roots, and our certificate.
#[derive(Clone, Debug)]
pub struct Tls(ClientTlsConfig);

impl Tls {
    /// Reads PEM files: the roots of servers' certificates and, for servers that require client
    /// certificates, our certificate and its key. `name` is the name in servers' certificates, if
    /// it differs from the host in their addresses.
    ///
    /// # Errors
    /// [`Error::Certificates`] if a file cannot be read.
    pub fn read(
        roots: &Path,
        own: Option<(&Path, &Path)>,
        name: Option<&str>,
    ) -> Result<Self, Error> {
        let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem(roots)?));
        if let Some((certificate, key)) = own {
            config = config.identity(Identity::from_pem(pem(certificate)?, pem(key)?));
        }
        if let Some(name) = name {
            config = config.domain_name(name);
        }
        Ok(Self(config))
    }

    /// An endpoint that is encrypted; `peer` is its name in errors.
    ///
    /// # Errors
    /// [`Error::Certificates`] if they are unusable, or the address is that of a Unix socket.
    pub fn encrypt(
        &self,
        endpoint: Endpoint,
        peer: &str,
        address: &str,
    ) -> Result<Endpoint, Error> {
        if address.starts_with("unix:") {
            let what = format!("{peer}: {address} is a Unix socket, which needs no TLS");
            return Err(Error::Certificates(what));
        }
        endpoint.tls_config(self.0.clone()).map_err(|error| Error::Certificates(root_cause(&error)))
    }
}

/// The text of a PEM file.
fn pem(path: &Path) -> Result<String, Error> {
    let text = PEM
        .read_text(path)
        .map_err(|error| Error::Certificates(format!("{}: {error}", path.display())))?;
    if text.contains("-----BEGIN ") {
        Ok(text)
    } else {
        let what = format!("{}: there is nothing in PEM form in it", path.display());
        Err(Error::Certificates(what))
    }
}
