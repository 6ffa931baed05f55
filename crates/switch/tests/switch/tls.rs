//! Encrypted servers: which clients are admitted, and errors for invalid certificates.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tributary_access::ServerKeys;
use tributary_p4runtime::p4::v1::CapabilitiesRequest;
use tributary_p4runtime::p4::v1::p4_runtime_client::P4RuntimeClient;
use tributary_switch::server::{Listen, ServerHandle};

use crate::bounds::{large, undrained};
use crate::grpc::*;

/// A root that signs certificates, and a directory for them.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    directory: tempfile::TempDir,
}

/// A certificate and its key, as files.
struct Pair {
    certificate: PathBuf,
    key: PathBuf,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { issuer, directory: tempfile::tempdir().unwrap() }
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn root(&self) -> String {
        self.issuer.pem()
    }

    fn certify(&self, name: &str) -> Pair {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Pair {
            certificate: self.file(&format!("{name}.pem"), &certificate.pem()),
            key: self.file(&format!("{name}.key"), &key.serialize_pem()),
        }
    }
}

impl Pair {
    fn identity(&self) -> Identity {
        let text = |path: &Path| std::fs::read_to_string(path).unwrap();
        Identity::from_pem(text(&self.certificate), text(&self.key))
    }
}

/// A client of a server, with a TLS configuration or without encryption.
async fn client(
    listen: &Listen,
    tls: Option<ClientTlsConfig>,
) -> Result<P4RuntimeClient<Channel>, String> {
    let Listen::Tcp(address) = listen else { unreachable!("listens on TCP") };
    let endpoint = match tls {
        Some(tls) => Endpoint::try_from(format!("https://localhost:{}", address.port()))
            .unwrap()
            .tls_config(tls)
            .unwrap(),
        None => Endpoint::try_from(format!("http://{address}")).unwrap(),
    };
    let channel = endpoint.connect().await.map_err(|error| format!("{error:?}"))?;
    Ok(P4RuntimeClient::new(channel))
}

/// The result of connecting to a server.
async fn capabilities(listen: &Listen, tls: Option<ClientTlsConfig>) -> Result<String, String> {
    let mut client = client(listen, tls).await?;
    let answer = client.capabilities(CapabilitiesRequest { device_id: 0 }).await;
    let answer = answer.map_err(|status| format!("{status:?}"))?;
    Ok(answer.into_inner().p4runtime_api_version)
}

async fn start(device: &Device, tls: ServerKeys) -> ServerHandle {
    let service = device.service.clone();
    let listen = Listen::Tcp("127.0.0.1:0".parse().unwrap());
    let start = move || ServerHandle::start_with(service, listen, Some(tls)).unwrap();
    tokio::task::spawn_blocking(start).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_trust_the_server_get_in() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let pair = authority.certify("localhost");
    let device = device();
    let server =
        start(&device, ServerKeys::read(&pair.certificate, &pair.key, None).unwrap()).await;
    let trusting =
        |root: String| Some(ClientTlsConfig::new().ca_certificate(Certificate::from_pem(root)));
    let version = capabilities(server.address(), trusting(authority.root())).await;
    assert!(version.is_ok(), "{version:?}");
    let error = capabilities(server.address(), trusting(stranger.root())).await.unwrap_err();
    assert!(error.contains("InvalidCertificate"), "{error}");
    capabilities(server.address(), None).await.unwrap_err();
    // The rejected clients have not affected the server.
    capabilities(server.address(), trusting(authority.root())).await.unwrap();
    tokio::task::spawn_blocking(move || server.stop()).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn mutual_tls_takes_only_clients_with_a_certificate_from_its_roots() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let pair = authority.certify("localhost");
    let roots = authority.file("roots.pem", &authority.root());
    let device = device();
    let tls = ServerKeys::read(&pair.certificate, &pair.key, Some(&roots)).unwrap();
    let server = start(&device, tls).await;
    let anonymous = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authority.root()));
    let known = anonymous.clone().identity(authority.certify("controller").identity());
    let unknown = anonymous.clone().identity(stranger.certify("controller").identity());
    capabilities(server.address(), Some(known.clone())).await.unwrap();
    capabilities(server.address(), Some(anonymous)).await.unwrap_err();
    capabilities(server.address(), Some(unknown)).await.unwrap_err();
    capabilities(server.address(), Some(known)).await.unwrap();
    tokio::task::spawn_blocking(move || server.stop()).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn with_names_other_certificates_of_the_same_root_are_not_enough() {
    let authority = Authority::new();
    let pair = authority.certify("localhost");
    let roots = authority.file("roots.pem", &authority.root());
    let device = device();
    let tls = ServerKeys::read(&pair.certificate, &pair.key, Some(&roots)).unwrap();
    let names = ["control".to_owned(), "standby".to_owned()];
    let server = start(&device, tls.only(names)).await;
    let client = |name: &str| {
        let trusting = ClientTlsConfig::new();
        let trusting = trusting.ca_certificate(Certificate::from_pem(authority.root()));
        Some(trusting.identity(authority.certify(name).identity()))
    };
    for (name, admitted) in [("control", true), ("alice", false), ("standby", true)] {
        let answer = capabilities(server.address(), client(name)).await;
        assert_eq!(answer.is_ok(), admitted, "{name}");
    }
    tokio::task::spawn_blocking(move || server.stop()).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn each_encrypted_connection_has_reads_of_its_own() {
    let authority = Authority::new();
    let pair = authority.certify("localhost");
    let device = device();
    let keys = ServerKeys::read(&pair.certificate, &pair.key, None).unwrap();
    let server = start(&device, keys).await;
    let root = Certificate::from_pem(authority.root());
    let trusting = Some(ClientTlsConfig::new().ca_certificate(root));
    let mut controller = client(server.address(), trusting.clone()).await.unwrap();
    let _primary = primary(&mut controller).await;
    push(&mut controller, &large()).await;
    let mut crowd = Vec::new();
    for _ in 0..3 {
        let mut client = client(server.address(), trusting.clone()).await.unwrap();
        let (answers, refused) = undrained(&mut client, 20).await;
        assert_eq!((answers.len(), refused.len()), (16, 4));
        crowd.push((client, answers));
    }
    drop(crowd);
    tokio::task::spawn_blocking(move || server.stop()).await.unwrap().unwrap();
}

#[test]
fn bad_certificates_are_refused_with_one_line_that_names_the_file() {
    let authority = Authority::new();
    let (pair, other) = (authority.certify("localhost"), authority.certify("other"));
    let empty = authority.file("empty.pem", "");
    let broken = authority.file(
        "broken.pem",
        "-----BEGIN CERTIFICATE-----\nnot base64 at all!\n-----END CERTIFICATE-----\n",
    );
    let missing = authority.directory.path().join("missing.pem");
    for (certificate, key, roots, named) in [
        (&missing, &pair.key, None, "missing.pem"),
        (&empty, &pair.key, None, "empty.pem: there is no certificate"),
        (&pair.certificate, &empty, None, "empty.pem: there is no private key"),
        (&pair.key, &pair.certificate, None, "localhost.key: there is no certificate"),
        (&broken, &pair.key, None, "broken.pem"),
        (&pair.certificate, &other.key, None, "other.key"),
        (&pair.certificate, &pair.key, Some(&empty), "empty.pem: there is no certificate"),
    ] {
        let error = ServerKeys::read(certificate, key, roots.map(PathBuf::as_path)).unwrap_err();
        let line = error.to_string();
        assert!(line.starts_with("cannot use the TLS certificates: "), "{line}");
        assert!(line.contains(named) && !line.contains('\n'), "{named}: {line}");
    }
}
