//! Servers that let in whom they should, over real sockets. The service is gRPC's own health check.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use rcgen::{CertificateParams, Issuer, KeyPair, date_time_ymd};
use tempfile::TempDir;
use tonic::service::Routes;
use tonic::{Code, Request, Response, Status};
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tributary_access::remote::is_absence;
use tributary_access::{
    ClientKeys, Door, Grant, Identity, Limits, Listen, Policy, Remote, Role, SILENCE, Server,
    ServerKeys, certs,
};

/// Time for an answer, also on a busy machine.
const ANSWER: Duration = Duration::from_secs(5);

const LIMITS: Limits = Limits { connections: 8, calls: 4, silence: SILENCE };

/// Its callers must have the role that they name as the service to check.
struct Checked;

type Answers = tokio_stream::Empty<Result<HealthCheckResponse, Status>>;

#[tonic::async_trait]
impl Health for Checked {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let role = match &*request.get_ref().service {
            "observe" => Role::Observe,
            "submit" => Role::Submit,
            "agent" => Role::Agent,
            _ => Role::Operate,
        };
        Grant::of(&request)?.require(role)?;
        Ok(Response::new(HealthCheckResponse::default()))
    }

    type WatchStream = Answers;

    async fn watch(&self, _: Request<HealthCheckRequest>) -> Result<Response<Answers>, Status> {
        Err(Status::unimplemented("not needed"))
    }
}

async fn serve(door: Door) -> Server {
    Server::start(Routes::new(HealthServer::new(Checked)), door, LIMITS).await.unwrap()
}

/// Certificates in a directory.
struct Site(TempDir);

impl Site {
    fn new(names: &[&str]) -> Self {
        let site = Self(tempfile::tempdir().unwrap());
        site.make(names);
        site
    }

    fn make(&self, names: &[&str]) {
        let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        certs::make(self.0.path(), &names, 30).unwrap();
    }

    /// A certificate of the root that was valid from 2020 to 2021.
    fn make_old(&self, name: &str) {
        let read = |file: &str| std::fs::read_to_string(self.path(file)).unwrap();
        let root = KeyPair::from_pem(&read("ca.key")).unwrap();
        let issuer = Issuer::from_ca_cert_pem(&read("ca.pem"), root).unwrap();
        let names = vec![name.to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        let own = self.path(name);
        std::fs::create_dir_all(&own).unwrap();
        std::fs::write(own.join("cert.pem"), certificate.pem()).unwrap();
        std::fs::write(own.join("key.pem"), key.serialize_pem()).unwrap();
    }

    /// The certificate and the key of a name.
    fn own(&self, name: &str) -> [PathBuf; 2] {
        ["cert.pem", "key.pem"].map(|file| self.path(name).join(file))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn server(&self, policy: Policy) -> Door {
        let keys = Identity::new(&self.path("server")).server(false).unwrap();
        Door { listen: "127.0.0.1:0".parse().unwrap(), keys: Some(keys), policy }
    }

    fn client(&self, name: &str, root: &Path) -> Arc<ClientKeys> {
        let own = self.own(name);
        Arc::new(ClientKeys::read(root, Some((&own[0], &own[1])), None).unwrap())
    }

    fn remote(&self, server: &Server, name: &str) -> Remote {
        remote(server, Some(self.client(name, &self.path("ca.pem"))))
    }
}

fn remote(server: &Server, keys: Option<Arc<ClientKeys>>) -> Remote {
    // Without a time limit, a request that meets the end of its connection may wait for minutes.
    Remote::new(&server.address().to_string(), keys).unwrap().unwrap().with_timeout(ANSWER)
}

/// The answer to a request that needs a role; `UNKNOWN` if there is no connection.
async fn check(remote: &Remote, role: &str) -> Code {
    // A server that closes a connection may do that before the client has read its answer.
    for _ in 0..10 {
        let Ok(channel) = remote.connect().await else { return Code::Unknown };
        let request = HealthCheckRequest { service: role.into() };
        // A server that refuses a certificate says so after the client's part of the handshake.
        match HealthClient::new(channel).check(request).await {
            Ok(_) => return Code::Ok,
            Err(status) if status.code() == Code::PermissionDenied => {
                return Code::PermissionDenied;
            }
            Err(_) => {}
        }
    }
    Code::Unknown
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_decide_who_may_do_what() {
    let site = Site::new(&["server=127.0.0.1", "boss", "w1.blue", "s1.nodes", "nobody"]);
    let list = "[[client]]\ncertificate = \"boss\"\nrole = \"operate\"\n\
                [[client]]\ncertificate = \"*.blue\"\nrole = \"submit\"\n\
                [[client]]\ncertificate = \"*.nodes\"\nrole = \"agent\"\n";
    std::fs::write(site.path("access.toml"), list).unwrap();
    let policy = Policy::read(&site.path("access.toml")).unwrap();
    let server = serve(site.server(policy)).await;
    for (name, allowed) in [
        ("boss", &["observe", "submit", "agent", "operate"][..]),
        ("w1.blue", &["observe", "submit"]),
        ("s1.nodes", &["agent"]),
        ("nobody", &[]),
    ] {
        let remote = site.remote(&server, name);
        for role in ["observe", "submit", "agent", "operate"] {
            let expected = if allowed.contains(&role) { Code::Ok } else { Code::PermissionDenied };
            assert_eq!(check(&remote, role).await, expected, "{name} {role}");
        }
    }
    // The list is read again.
    std::fs::write(site.path("access.toml"), list.replace("boss", "nobody")).unwrap();
    until(&site.remote(&server, "nobody"), Code::Ok).await;
    assert_eq!(check(&site.remote(&server, "boss"), "observe").await, Code::PermissionDenied);
    // A list that makes no sense changes nothing.
    std::fs::write(site.path("access.toml"), "nonsense").unwrap();
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert_eq!(check(&site.remote(&server, "nobody"), "operate").await, Code::Ok);
}

/// Waits until an operator's request has this answer.
async fn until(remote: &Remote, expected: Code) {
    let begin = Instant::now();
    while check(remote, "operate").await != expected {
        assert!(begin.elapsed() < Duration::from_secs(20), "still not {expected:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_do_not_get_in() {
    let site = Site::new(&["server=127.0.0.1", "client"]);
    let other = Site::new(&["server=127.0.0.1", "client"]);
    let server = serve(site.server(Policy::all_may_operate())).await;
    let root = site.path("ca.pem");
    assert_eq!(check(&site.remote(&server, "client"), "operate").await, Code::Ok);
    // Another root's certificate, none, and no TLS.
    let stranger = remote(&server, Some(other.client("client", &root)));
    let nameless = remote(&server, Some(Arc::new(ClientKeys::read(&root, None, None).unwrap())));
    for remote in [stranger, nameless, remote(&server, None)] {
        assert_eq!(check(&remote, "observe").await, Code::Unknown);
    }
    // A client does not trust another root's server, or one of another name.
    let wary = remote(&server, Some(site.client("client", &other.path("ca.pem"))));
    assert_eq!(check(&wary, "observe").await, Code::Unknown);
    let own = site.own("client");
    let keys = ClientKeys::read(&root, Some((&own[0], &own[1])), Some("elsewhere")).unwrap();
    assert_eq!(check(&remote(&server, Some(Arc::new(keys))), "observe").await, Code::Unknown);
}

/// Why a request fails. Waiting does not help against a refused certificate.
async fn problem(remote: &Remote) -> String {
    let channel = match remote.connect().await {
        Ok(channel) => channel,
        Err(error) => {
            assert!(!error.is_absence(), "{error}");
            return error.to_string();
        }
    };
    let status = HealthClient::new(channel).check(HealthCheckRequest::default()).await.unwrap_err();
    let mut cause: &dyn std::error::Error = &status;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    let said = cause.to_string();
    assert!(!said.contains("certificate") || !is_absence(&status), "{status:?}");
    said
}

/// Appends to a text.
struct Log(&'static Mutex<Vec<u8>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What all tests of this process have logged.
fn log() -> &'static Mutex<Vec<u8>> {
    static LOG: OnceLock<&Mutex<Vec<u8>>> = OnceLock::new();
    LOG.get_or_init(|| {
        let log: &Mutex<Vec<u8>> = Box::leak(Box::default());
        tracing_subscriber::fmt().with_writer(move || Log(log)).with_ansi(false).init();
        log
    })
}

/// Waits until a line of the log has both texts.
async fn logged(client: &str, reason: &str) {
    let begin = Instant::now();
    loop {
        let text = String::from_utf8(log().lock().unwrap().clone()).unwrap();
        if text.lines().any(|line| line.contains(client) && line.contains(reason)) {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(10), "no `{reason}` in {text}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// On both sides, in one line.
#[tokio::test(flavor = "multi_thread")]
async fn each_refusal_has_its_reason() {
    log();
    let site = Site::new(&["server=127.0.0.1", "client", "other"]);
    let other = Site::new(&["client"]);
    site.make_old("old");
    let root = site.path("ca.pem");
    let as_named = |name: &str| {
        let own = site.own("client");
        let keys = ClientKeys::read(&root, Some((&own[0], &own[1])), Some(name)).unwrap();
        Some(Arc::new(keys))
    };
    let nameless = || Some(Arc::new(ClientKeys::read(&root, None, None).unwrap()));
    let refused = "was not let in: ";
    for (keys, own, theirs) in [
        (nameless(), "refuses clients without a certificate; give yours", "it has no certificate"),
        (
            Some(other.client("client", &root)),
            "does not know the authority that signed this client's certificate",
            "its certificate is signed by an unknown authority",
        ),
        (
            Some(site.client("old", &root)),
            "this client's certificate (--identity) has expired",
            "its certificate has expired",
        ),
        (
            Some(site.client("client", &other.path("ca.pem"))),
            "the server's certificate is signed by an unknown authority; add its root to ca.pem",
            "it refuses this server's certificate",
        ),
        (
            as_named("elsewhere"),
            "the server's certificate is not for `elsewhere`",
            "it refuses this server's certificate",
        ),
        (None, "", "it does not use TLS"),
    ] {
        // Each has a log of its own, which is not full yet.
        let server = serve(site.server(Policy::all_may_operate())).await;
        // With TLS 1.3, the server's connection may end before the client has read the reason.
        let client = remote(&server, keys);
        let mut said = String::new();
        for _ in 0..50 {
            said = problem(&client).await;
            if said.contains(own) {
                break;
            }
        }
        assert!(said.contains(own) && said.lines().count() == 1, "{own}: {said}");
        logged(refused, theirs).await;
        log().lock().unwrap().clear();
    }
    let door = site.server(Policy::all_may_operate());
    let keys = door.keys.map(|keys| keys.only(["other".to_owned()]));
    let server = serve(Door { keys, ..site.server(Policy::all_may_operate()) }).await;
    problem(&site.remote(&server, "client")).await;
    logged(refused, "the certificate of client is not one of the names that may use this server")
        .await;

    // A server whose certificate has expired, and one without TLS.
    let [certificate, key] = site.own("old");
    let keys = Some(ServerKeys::read(&certificate, &key, None).unwrap());
    let expired = serve(Door { keys, ..site.server(Policy::all_may_operate()) }).await;
    let said = problem(&site.remote(&expired, "client")).await;
    assert!(said.contains("the server's certificate has expired; compare the clocks"), "{said}");
    let plain = serve(Door { keys: None, ..site.server(Policy::all_may_operate()) }).await;
    let said = problem(&site.remote(&plain, "client")).await;
    assert!(said.contains("the server does not use TLS"), "{said}");
}

#[test]
fn certificates_are_valid_for_the_days_that_were_asked_for() {
    let site = Site::new(&["client"]);
    let days = |file: &str| {
        let pem = std::fs::read(site.path(file)).unwrap();
        let (_, pem) = x509_parser::pem::parse_x509_pem(&pem).unwrap();
        let validity = pem.parse_x509().unwrap().validity().clone();
        let now = x509_parser::time::ASN1Time::now();
        assert!(validity.not_before <= now);
        let left = validity.not_after.timestamp() - now.timestamp();
        (left + 86_399) / 86_400
    };
    assert_eq!((days("client/cert.pem"), days("ca.pem")), (30, i64::from(certs::MOST_DAYS)));
    // A root that would expire first.
    site.make_old("old");
    std::fs::copy(site.path("old/cert.pem"), site.path("ca.pem")).unwrap();
    std::fs::copy(site.path("old/key.pem"), site.path("ca.key")).unwrap();
    let error = certs::make(site.0.path(), &["client".to_owned()], 7).unwrap_err().to_string();
    assert!(error.contains("ca.pem expires within 7 days; ask for fewer (--days)"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_rotate_without_a_restart() {
    let site = Site::new(&["server=127.0.0.1", "client"]);
    let server = serve(site.server(Policy::all_may_operate())).await;
    let client = site.remote(&server, "client");
    assert_eq!(check(&client, "operate").await, Code::Ok);
    // A new root, with new certificates on both sides.
    let old = Site::new(&[]);
    std::fs::create_dir(old.path("client")).unwrap();
    for file in ["ca.pem", "client/cert.pem", "client/key.pem"] {
        std::fs::copy(site.path(file), old.path(file)).unwrap();
    }
    for file in ["ca.pem", "ca.key"] {
        std::fs::remove_file(site.path(file)).unwrap();
    }
    site.make(&["server=127.0.0.1", "client"]);
    until(&client, Code::Ok).await;
    until(&old.remote(&server, "client"), Code::Unknown).await;
    assert_eq!(check(&client, "operate").await, Code::Ok);
    // Half a file is not used.
    std::fs::write(site.path("server/cert.pem"), "-----BEGIN CERT").unwrap();
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert_eq!(check(&client, "operate").await, Code::Ok);
}

/// A process with an identity may have connections that are not encrypted.
#[tokio::test(flavor = "multi_thread")]
async fn unix_sockets_and_http_addresses_need_no_keys() {
    let site = Site::new(&["client"]);
    let keys = || Some(Identity::new(&site.path("client")).client(None).unwrap());
    let server = serve(Door::unlocked("127.0.0.1:0".parse().unwrap())).await;
    let at = format!("http://{}", server.address());
    let plain = Remote::new(&at, keys()).unwrap().unwrap();
    assert_eq!(check(&plain, "operate").await, Code::Ok);
    assert_eq!(check(&remote(&server, keys()), "operate").await, Code::Unknown);
    let server = serve(Door::unlocked(Listen::Unix(site.path("own.sock")))).await;
    assert_eq!(check(&remote(&server, keys()), "operate").await, Code::Ok);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_unix_socket_is_its_users() {
    let site = Site::new(&[]);
    let at = Listen::Unix(site.path("own.sock"));
    let server = serve(Door::unlocked(at.clone())).await;
    let mode = |name| std::fs::metadata(site.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("own.sock"), 0o600);
    assert_eq!(check(&remote(&server, None), "operate").await, Code::Ok);
    // A second server does not take the socket of one that runs.
    let second = Server::start(Routes::default(), Door::unlocked(at), LIMITS).await;
    assert_eq!(second.unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
    let gone = remote(&server, None);
    drop(server);
    assert!(!site.path("own.sock").exists());
    assert!(gone.connect().await.unwrap_err().is_absence());

    // With a list, others may connect, and this user still operates.
    std::fs::write(site.path("list"), "[[client]]\nuser = 65534\nrole = \"observe\"\n").unwrap();
    let policy = Policy::read(&site.path("list")).unwrap();
    let listen = Listen::Unix(site.path("open.sock"));
    let server = serve(Door { listen, keys: None, policy }).await;
    assert_eq!(mode("open.sock"), 0o666);
    assert_eq!(check(&remote(&server, None), "operate").await, Code::Ok);
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_clients_do_not_keep_others_out() {
    let site = Site::new(&["server=127.0.0.1", "client"]);
    let server = serve(site.server(Policy::all_may_operate())).await;
    let Listen::Tcp(address) = *server.address() else { panic!("a TCP address") };
    // They begin no handshake. The last place is free.
    let silent: Vec<_> =
        (1..LIMITS.connections).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
    let begin = Instant::now();
    assert_eq!(check(&site.remote(&server, "client"), "operate").await, Code::Ok);
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    drop(silent);
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_that_may_do_nothing_do_not_take_the_places_of_others() {
    let site = Site::new(&["server=127.0.0.1", "boss", "nobody"]);
    let list = "[[client]]\ncertificate = \"boss\"\nrole = \"operate\"\n";
    std::fs::write(site.path("access.toml"), list).unwrap();
    let server = serve(site.server(Policy::read(&site.path("access.toml")).unwrap())).await;
    let nobody = site.remote(&server, "nobody");
    // One of eight places is theirs, and stays so as long as the connection.
    let channel = nobody.connect().await.unwrap();
    let ask = async || {
        let request = HealthCheckRequest { service: "observe".into() };
        HealthClient::new(channel.clone()).check(request).await.unwrap_err().code()
    };
    assert_eq!(ask().await, Code::PermissionDenied);
    for _ in 0..20 {
        assert_eq!(check(&nobody, "observe").await, Code::Unknown);
    }
    assert_eq!(check(&site.remote(&server, "boss"), "operate").await, Code::Ok);
    assert_eq!(ask().await, Code::PermissionDenied);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_are_silent_after_the_handshake_are_given_up() {
    use tokio::io::AsyncReadExt as _;
    let site = Site::new(&["server=127.0.0.1", "client"]);
    let server = serve(site.server(Policy::all_may_operate())).await;
    let mut silent = site.remote(&server, "client").open().await.unwrap();
    let begin = Instant::now();
    // The server's own greeting comes first, and then the end.
    let mut said = Vec::new();
    drop(
        tokio::time::timeout(Duration::from_secs(30), silent.read_to_end(&mut said)).await.unwrap(),
    );
    let took = begin.elapsed();
    assert!(took > Duration::from_secs(5) && took < Duration::from_secs(29), "{took:?}");
}

#[test]
fn certificates_are_made_again_and_bad_names_refused() {
    let site = Site::new(&["a", "b=10.0.0.1,::1"]);
    let read = |file: &str| std::fs::read(site.path(file)).unwrap();
    let (root, own) = (read("ca.pem"), read("a/cert.pem"));
    site.make(&["a"]);
    assert!(read("ca.pem") == root && read("a/ca.pem") == root && read("a/cert.pem") != own);
    let mode = std::fs::metadata(site.path("a/key.pem")).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    for (name, expected) in [
        ("", "is not a host name"),
        ("../a", "is not a host name"),
        ("ca", "is the root's name"),
        ("ca.key", "is the root's name"),
        ("a=b", "a=b: `b` is not an IP address"),
    ] {
        let error = certs::make(site.0.path(), &[name.to_owned()], 30).unwrap_err().to_string();
        assert!(error.contains(expected), "{name}: {error}");
    }
}
