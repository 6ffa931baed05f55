//! Encryption of connections, and authentication of controllers.

use std::path::Path;
use std::time::Duration;

use tonic::transport::{Certificate, Identity, ServerTlsConfig};
use tributary_limits::FileLimit;

use super::listen::ServerError;

/// Certificates or a key: a complete bundle of public roots has 200 KB.
const PEM: FileLimit = FileLimit::new("PEM file", 4 << 20);

/// Timeout of the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The certificates of a server.
#[derive(Clone, Debug)]
pub struct Tls(ServerTlsConfig);

impl Tls {
    /// Reads PEM files: the server's certificate (with intermediate certificates, if any) and its
    /// key. With `clients`, the roots of client certificates, a controller must present one (mutual
    /// TLS).
    ///
    /// # Errors
    /// [`ServerError::Tls`] if a file cannot be read or is invalid.
    pub fn read(
        certificate: &Path,
        key: &Path,
        clients: Option<&Path>,
    ) -> Result<Self, ServerError> {
        let identity =
            Identity::from_pem(pem(certificate, "CERTIFICATE")?, pem(key, "PRIVATE KEY")?);
        let mut config = ServerTlsConfig::new().identity(identity).timeout(HANDSHAKE);
        if let Some(roots) = clients {
            config = config.client_ca_root(Certificate::from_pem(pem(roots, "CERTIFICATE")?));
        }
        // Checks that certificate and key match, before the server listens.
        let builder = tonic::transport::Server::builder().tls_config(config.clone());
        match builder {
            Ok(_) => Ok(Self(config)),
            Err(error) => Err(ServerError::Tls(format!(
                "{} with the key {}: {}",
                certificate.display(),
                key.display(),
                root_cause(&error)
            ))),
        }
    }

    /// The configuration of a server of tonic.
    #[must_use]
    pub fn config(self) -> ServerTlsConfig {
        self.0
    }
}

/// The text of a PEM file, which must have a section of a kind.
fn pem(path: &Path, kind: &str) -> Result<String, ServerError> {
    let text = PEM
        .read_text(path)
        .map_err(|error| ServerError::Tls(format!("{}: {error}", path.display())))?;
    let begins = |line: &str| line.starts_with("-----BEGIN ") && line.ends_with("-----");
    if text.lines().any(|line| begins(line.trim()) && line.contains(kind)) {
        Ok(text)
    } else {
        let what = kind.to_lowercase();
        Err(ServerError::Tls(format!("{}: there is no {what} in PEM form in it", path.display())))
    }
}

/// The innermost cause, instead of "transport error".
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
