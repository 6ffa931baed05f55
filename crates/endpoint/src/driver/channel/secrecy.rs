//! TLS 1.3 between the agent and its peers, without certificates.
//!
//! Only the two ends know the job's token. They derive the agent's key pair from it, so that a
//! peer recognises the agent by its public key (RFC 7250) and a host that takes over the agent's address
//! cannot pretend to be it. The token itself is sent inside, and authenticates the peer. The server's name
//! tells the agent which job's key to use.

use std::sync::Arc;

use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring as provider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, PeerIncompatible, ServerConfig,
    SignatureScheme,
};
use tributary_wire::JobId;
use tributary_wire::channel::Token;

/// Separates these keys from all others that could be derived from a token.
const SALT: &[u8] = b"tributary reminder agent";
const KEY: &[u8] = b"ed25519";

/// What stands before the key in PKCS #8 (RFC 8410).
const PRIVATE_PREFIX: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];
/// The same in a SubjectPublicKeyInfo.
const PUBLIC_PREFIX: [u8; 12] =
    [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

const SUFFIX: &str = ".reminder.tributary";

/// The agent's key pair for a job.
struct Keys {
    private: [u8; 48],
    public: [u8; 44],
}

struct Seed;

impl KeyType for Seed {
    fn len(&self) -> usize {
        32
    }
}

impl Keys {
    fn of(token: &Token) -> Self {
        let secret = Salt::new(HKDF_SHA256, SALT).extract(&token.0);
        let mut seed = [0; 32];
        let derived = secret.expand(&[KEY], Seed).and_then(|key| key.fill(&mut seed));
        derived.expect("32 bytes are not too many");
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).expect("any 32 bytes are a seed");
        let (mut private, mut public) = ([0; 48], [0; 44]);
        private[..16].copy_from_slice(&PRIVATE_PREFIX);
        private[16..].copy_from_slice(&seed);
        public[..12].copy_from_slice(&PUBLIC_PREFIX);
        public[12..].copy_from_slice(pair.public_key().as_ref());
        Self { private, public }
    }
}

/// The name by which a peer of a job calls the agent.
///
/// # Panics
/// Never: each number makes a valid name.
#[must_use]
pub fn name(job: JobId) -> ServerName<'static> {
    ServerName::try_from(format!("job-{job}{SUFFIX}")).expect("a valid name")
}

/// The job in such a name.
pub(crate) fn job(name: &str) -> Option<JobId> {
    let number = name.strip_prefix("job-")?.strip_suffix(SUFFIX)?;
    number.parse().ok().and_then(JobId::new)
}

/// The settings of an agent towards peers of a job.
///
/// # Panics
/// Never: the key is valid, and ring has TLS 1.3.
#[must_use]
pub fn server(token: &Token) -> Arc<ServerConfig> {
    let Keys { private, public } = Keys::of(token);
    let key = PrivatePkcs8KeyDer::from(private.to_vec());
    let key = provider::sign::any_eddsa_type(&key).expect("an Ed25519 key");
    let key = CertifiedKey::new(vec![CertificateDer::from(public.to_vec())], key);
    serving(Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::new(key))))
}

/// The settings towards peers of other jobs, which tell them so.
pub(crate) fn refusing() -> Arc<ServerConfig> {
    serving(Arc::new(NoKey))
}

fn serving(keys: Arc<dyn ResolvesServerCert>) -> Arc<ServerConfig> {
    let builder = ServerConfig::builder_with_provider(ring())
        .with_protocol_versions(&[&TLS13])
        .expect("ring has TLS 1.3");
    let mut config = builder.with_no_client_auth().with_cert_resolver(keys);
    // Peers that come back shake hands again: a job may have another key by then.
    config.send_tls13_tickets = 0;
    Arc::new(config)
}

/// The settings of a peer of a job.
///
/// # Panics
/// Never: ring has TLS 1.3.
#[must_use]
pub fn client(token: &Token) -> Arc<ClientConfig> {
    let verifier = Arc::new(Known { key: Keys::of(token).public, provider: ring() });
    let builder = ClientConfig::builder_with_provider(ring())
        .with_protocol_versions(&[&TLS13])
        .expect("ring has TLS 1.3");
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    Arc::new(builder.with_no_client_auth())
}

fn ring() -> Arc<CryptoProvider> {
    Arc::new(provider::default_provider())
}

/// Has no key, so that the peer is told that access is denied.
#[derive(Debug)]
struct NoKey;

impl ResolvesServerCert for NoKey {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        None
    }
}

/// Accepts the agent with this public key.
#[derive(Debug)]
struct Known {
    key: [u8; 44],
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Known {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match end_entity.as_ref() == self.key {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::SupportedVersionsExtensionRequired.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(cert.as_ref());
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &key, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_the_job() {
        for number in [1, 7, 255, u16::MAX] {
            let of = JobId::new(number).unwrap();
            assert_eq!(job(&name(of).to_str()), Some(of));
        }
        for other in ["", "job-0.reminder.tributary", "job-70000.reminder.tributary", "job-1"] {
            assert_eq!(job(other), None);
        }
    }

    #[test]
    fn each_token_has_a_key_of_its_own() {
        let [a, b] = [[7; 16], [8; 16]].map(|token| Keys::of(&Token(token)).public);
        assert_ne!(a, b);
        assert_eq!(a, Keys::of(&Token([7; 16])).public);
    }
}
