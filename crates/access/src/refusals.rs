//! Why one side of a TLS connection refuses the other, in one line, with what to do.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use rustls::{AlertDescription, CertificateError, Error};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

fn inner(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

/// What is wrong with the times of a certificate, if that is its flaw.
fn untimely(error: &CertificateError) -> Option<&'static str> {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => Some("has expired"),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            Some("is not valid yet")
        }
        _ => None,
    }
}

/// Roots of `tributary certs` have the same name, so that of another site has signed as if it were ours.
fn of_another_root(error: &CertificateError) -> bool {
    matches!(error, CertificateError::UnknownIssuer | CertificateError::BadSignature)
}

fn of_another_name(error: &CertificateError) -> bool {
    use CertificateError::{NotValidForName, NotValidForNameContext};
    matches!(error, NotValidForName | NotValidForNameContext { .. })
}

/// The error of a client's handshake with the server that has this name.
pub(crate) fn of_handshake(error: io::Error, name: &str) -> io::Error {
    let text = match inner(&error) {
        Some(Error::InvalidCertificate(reason)) => match untimely(reason) {
            None if of_another_root(reason) => {
                "the server's certificate is signed by an unknown authority; add its root to ca.pem \
                 in your --identity"
                    .to_owned()
            }
            None if of_another_name(reason) => format!(
                "the server's certificate is not for `{name}`; connect to a name that it has, or give that \
                 name (--server-name)"
            ),
            Some(flaw) => format!(
                "the server's certificate {flaw}; compare the clocks, or give the server another one"
            ),
            None => format!("the server's certificate is not valid: {reason}"),
        },
        Some(Error::InvalidMessage(_)) => "the server does not use TLS; start it with a certificate, or \
                                           connect without --identity"
            .to_owned(),
        _ => return of_alert(error),
    };
    io::Error::new(error.kind(), text)
}

/// The error of a client's connection. A server says only after the client's part of the handshake that it
/// refuses the client's certificate.
fn of_alert(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        // A process that is killed does not close its TLS session.
        return io::Error::new(error.kind(), "the server's end of the connection is gone");
    }
    let Some(Error::AlertReceived(alert)) = inner(&error) else { return error };
    let text = match alert {
        AlertDescription::CertificateRequired => {
            "the server refuses clients without a certificate; give yours (cert.pem and key.pem in --identity)"
                .to_owned()
        }
        AlertDescription::UnknownCA | AlertDescription::DecryptError => "the server does not know the authority that signed this client's \
                                        certificate (--identity); give one that it knows"
            .to_owned(),
        AlertDescription::CertificateExpired => "this client's certificate (--identity) has expired, or is \
                                                 not valid yet; compare the clocks, or give another one"
            .to_owned(),
        other => format!("the server refuses the TLS connection ({other:?}); see its log"),
    };
    io::Error::new(error.kind(), text)
}

/// The reason why a server's handshake with a client has failed.
pub(crate) fn of_client(error: &io::Error) -> String {
    match inner(error) {
        Some(Error::NoCertificatesPresented) => {
            "it has no certificate; give it one (cert.pem and key.pem in its --identity)".to_owned()
        }
        Some(Error::InvalidCertificate(reason)) => match untimely(reason) {
            None if of_another_root(reason) => "its certificate is signed by an unknown authority; give it \
                                                another one, or add its root to ca.pem in the --identity here"
                .to_owned(),
            Some(flaw) => {
                format!("its certificate {flaw}; compare the clocks, or give it another one")
            }
            None => format!("its certificate is not valid: {reason}"),
        },
        Some(Error::AlertReceived(alert)) => format!(
            "it refuses this server's certificate ({alert:?}); see its own error for what to do"
        ),
        Some(Error::InvalidMessage(_)) => {
            "it does not use TLS; give it an --identity with the root of this server's certificate".to_owned()
        }
        _ => error.to_string(),
    }
}

/// A client's encrypted stream, whose errors have the server's reason.
pub(crate) struct Explained<IO>(pub(crate) IO);

impl<IO: AsyncRead + Unpin> AsyncRead for Explained<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer).map_err(of_alert)
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Explained<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
