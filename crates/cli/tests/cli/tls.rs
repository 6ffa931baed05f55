//! `tributary controller` and `tributary switch` over TLS: which peers are admitted, and errors for
//! others.

use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tributary_run::testbed::Process;

use crate::by_hand::{DEADLINE, Net, ended};
use crate::command::namespaces;

const JOB: &str = "[topology]\nkind = \"star\"\nworkers = 2\n[[job]]\nname = \"small\"\n\
                   workload = { kind = \"random\", tensors = 3, bytes = \"4KB\" }\n";

/// The switches' address, and the name in their certificates.
const HOST: &str = "localhost";

/// A root, in a directory with its certificates.
struct Authority<'a> {
    issuer: CertifiedIssuer<'static, KeyPair>,
    directory: &'a Path,
    name: &'a str,
}

impl<'a> Authority<'a> {
    fn new(directory: &'a Path, name: &'a str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { issuer, directory, name }
    }

    fn file(&self, what: &str, text: &str) -> String {
        let path = self.directory.join(format!("{}-{what}", self.name));
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    fn root(&self) -> String {
        self.file("root.pem", &self.issuer.pem())
    }

    /// The files of a certificate and its key.
    fn certify(&self) -> [String; 2] {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![HOST.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        [self.file("own.pem", &certificate.pem()), self.file("own.key", &key.serialize_pem())]
    }
}

/// A switch and its address.
struct Switch<'a> {
    net: &'a Net,
    process: Process,
}

impl<'a> Switch<'a> {
    fn start(net: &'a Net, options: &[&str]) -> Self {
        Self { net, process: net.start_switch_at("127.0.0.1:9559", 3, options) }
    }

    fn push(&self, options: &[&str]) -> Process {
        let (file, at) = (self.net.file.name(), format!("s1={HOST}:9559"));
        let args = [&["controller", "push", &file, "--switch", &at], options].concat();
        self.net.start("s1", &args)
    }

    fn takes(&self, options: &[&str]) {
        let (good, errors) = ended(&self.push(options));
        assert!(good, "{options:?}: {errors}");
    }

    /// Checks that the controller fails with one line that contains a word.
    fn turns_away(&self, options: &[&str], word: &str) {
        let (mut good, mut errors) = ended(&self.push(options));
        // A connection may be closed before its client has read the reason.
        for _ in 0..5 {
            if !errors.contains(word) {
                (good, errors) = ended(&self.push(options));
            }
        }
        assert!(!good, "{options:?}");
        assert!(errors.starts_with("error: switch s1: "), "{options:?}: {errors}");
        assert!(errors.contains(word), "{options:?}: {errors}");
        assert_eq!(errors.trim_end().lines().count(), 1, "{options:?}: {errors}");
    }
}

impl Drop for Switch<'_> {
    fn drop(&mut self) {
        self.process.ask_to_end();
        let status = self.process.end(DEADLINE);
        assert!(std::thread::panicking() || status.unwrap().success());
    }
}

#[test]
fn switches_and_controllers_authenticate_each_other() {
    if !namespaces() {
        return;
    }
    let net = Net::without_switch(JOB, &["w1", "w2", "ps"]);
    let directory = net.file.path("");
    let (ours, theirs) = (Authority::new(&directory, "ours"), Authority::new(&directory, "theirs"));
    let (root, other_root) = (ours.root(), theirs.root());
    let ([certificate, key], [other_certificate, other_key]) = (ours.certify(), theirs.certify());
    let served = ["--tls-cert", &certificate, "--tls-key", &key];
    let trusting = ["--tls-ca", &root];
    {
        let switch = Switch::start(&net, &served);
        switch.takes(&trusting);
        switch.turns_away(
            &["--tls-ca", &other_root],
            "the server's certificate is signed by an unknown authority",
        );
        let name = [&trusting[..], &["--tls-name", "elsewhere"]].concat();
        switch.turns_away(&name, "the server's certificate is not for `elsewhere`");
        // Whether we receive the switch's answer or only see the connection close depends on
        // timing.
        switch.turns_away(&[], "error");
        // The rejected controllers have not affected it.
        switch.takes(&trusting);
    }
    {
        let mutual = [&served[..], &["--tls-client-ca", &root]].concat();
        let switch = Switch::start(&net, &mutual);
        let known = [&trusting[..], &served].concat();
        switch.takes(&known);
        switch.turns_away(&trusting, "refuses clients without a certificate");
        let stranger = ["--tls-cert", &other_certificate, "--tls-key", &other_key];
        let unknown = "does not know the authority that signed this client's certificate";
        switch.turns_away(&[&trusting[..], &stranger].concat(), unknown);
        switch.turns_away(&[], "error");
        switch.takes(&known);
    }
    let switch = Switch::start(&net, &[]);
    switch.turns_away(&trusting, "the server does not use TLS");
    switch.takes(&[]);
}
