//! `tributary controller` and `tributary switch` over TLS: which peers are admitted, and errors for
//! others.

use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tributary_run::testbed::Process;

use crate::by_hand::{DEADLINE, Net, ended};
use crate::command::namespaces;

const JOB: &str = "[topology]\nkind = \"star\"\nworkers = 2\n[[job]]\nname = \"small\"\n\
                   workload = { kind = \"random\", tensors = 3, bytes = \"4KB\" }\n";

/// The switches' address, and the name in their certificates.
const HOST: &str = "localhost";

/// A root.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A new identity that trusts this root, with a certificate of another one or without.
    fn identity(&self, directory: PathBuf, own: Option<&Self>) -> String {
        std::fs::create_dir(&directory).unwrap();
        let put = |name: &str, text: &str| std::fs::write(directory.join(name), text).unwrap();
        put("ca.pem", &self.0.pem());
        if let Some(own) = own {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(vec![HOST.to_owned()]).unwrap();
            put("cert.pem", &params.signed_by(&key, &own.0).unwrap().pem());
            put("key.pem", &key.serialize_pem());
        }
        directory.display().to_string()
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
    let (ours, theirs) = (Authority::new(), Authority::new());
    let own = ours.identity(net.file.path("own"), Some(&ours));
    let rooted = ours.identity(net.file.path("rooted"), None);
    let elsewhere = theirs.identity(net.file.path("elsewhere"), None);
    let strange = ours.identity(net.file.path("strange"), Some(&theirs));
    let trusting = ["--identity", &rooted];
    {
        let switch = Switch::start(&net, &["--identity", &own, "--allow-anyone"]);
        switch.takes(&trusting);
        switch.turns_away(
            &["--identity", &elsewhere],
            "the server's certificate is signed by an unknown authority",
        );
        let name = [&trusting[..], &["--server-name", "elsewhere"]].concat();
        switch.turns_away(&name, "the server's certificate is not for `elsewhere`");
        // Whether we receive the switch's answer or only see the connection close depends on
        // timing.
        switch.turns_away(&[], "error");
        // The rejected controllers have not affected it.
        switch.takes(&trusting);
    }
    {
        let switch = Switch::start(&net, &["--identity", &own]);
        let known = ["--identity", &own];
        switch.takes(&known);
        switch.turns_away(&trusting, "refuses clients without a certificate");
        let unknown = "does not know the authority that signed this client's certificate";
        switch.turns_away(&["--identity", &strange], unknown);
        switch.turns_away(&[], "error");
        switch.takes(&known);
    }
    let switch = Switch::start(&net, &[]);
    switch.turns_away(&trusting, "the server does not use TLS");
    switch.takes(&[]);
}
