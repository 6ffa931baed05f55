//! Groups at a controller: what is refused before a packet is sent, each in one line.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use tributary_collective::{Admission, Settings, Station, admission};

const TIMEOUT: Duration = Duration::from_secs(60);

/// Two racks with two hosts each.
const TOPOLOGY: &str = "[topology]\nracks = 2\nhosts_per_rack = 2\nps_hosts = 1\n";

struct Site {
    directory: tempfile::TempDir,
}

impl Site {
    fn new(protocol: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let site = Self { directory };
        let text = format!("protocol = \"{protocol}\"\n{TOPOLOGY}[[job]]\nworkers = 2\n");
        std::fs::write(site.network(), text).unwrap();
        site
    }

    fn network(&self) -> PathBuf {
        self.directory.path().join("network.toml")
    }

    /// A rank on the first host, or as these variables say.
    fn find(&self, variables: &[(&str, &str)]) -> Result<Station, String> {
        let network = self.network().display().to_string();
        let defaults = [
            ("TRIBUTARY_NETWORK", &*network),
            ("TRIBUTARY_HOST", "w1"),
            ("TRIBUTARY_INTERFACE", "lo"),
        ];
        let get = |name: &str| {
            let mut all = variables.iter().chain(&defaults);
            let found = all.find(|(known, _)| *known == name)?;
            Some(found.1.to_owned()).filter(|value| !value.is_empty())
        };
        Station::find(&get).map_err(|error| format!("{error:#}"))
    }

    /// Why a group on these hosts is refused. The controller does not exist.
    fn request(&self, settings: &str, hosts: &[&str]) -> String {
        let station = self.find(&[]).unwrap();
        let controller = admission::controller("127.0.0.1:9", &|_| None).unwrap();
        let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
        let own = Ipv4Addr::LOCALHOST;
        let requested =
            Admission::request(&controller, &station, settings, "test", &hosts, own, TIMEOUT);
        let error = format!("{:#}", requested.err().expect("it is refused"));
        assert_eq!(error.lines().count(), 1, "{error}");
        error
    }
}

#[test]
fn a_station_is_found_by_its_variables() {
    let site = Site::new("p4inc");
    assert_eq!(site.find(&[]).unwrap().host(), "w1");
    for io in ["udp", "packet", "gso", "xdp", "udp-gso"] {
        assert!(site.find(&[("TRIBUTARY_IO", io)]).is_ok());
    }
    for (variable, why) in [
        (
            ("TRIBUTARY_NETWORK", ""),
            "TRIBUTARY_NETWORK is not set; with a controller, name the job",
        ),
        (("TRIBUTARY_NETWORK", "/nowhere.toml"), "/nowhere.toml"),
        (
            ("TRIBUTARY_HOST", "w9"),
            "TRIBUTARY_HOST: there is no host `w9` in the file; it has w1, ",
        ),
        (("TRIBUTARY_HOST", ""), "no host of it has an address of this machine (127.0.0.1"),
        (("TRIBUTARY_INTERFACE", ""), "no network interface here has the address"),
        (("TRIBUTARY_IO", "dpdk"), "TRIBUTARY_IO is \"dpdk\": unknown packet I/O `dpdk`; choose"),
    ] {
        let error = site.find(&[variable]).unwrap_err();
        assert!(error.contains(why), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn groups_that_the_network_cannot_sum_are_refused() {
    let site = Site::new("p4inc");
    for (settings, hosts, why) in [
        (
            "",
            &["w1", "w2", "w1"][..],
            "ranks 0 and 2 are both on host `w1`; with a controller, start",
        ),
        (
            "",
            &["w1", "w3"],
            "the ranks are at several switches (rack1 and rack2), so that their job",
        ),
        ("", &["w1", "w9"], "w9"),
        (
            "protocol = \"p4inc\"",
            &["w1", "w2"],
            "the settings have the key `protocol`, which the netw",
        ),
        (
            "[switch]\npool = 5",
            &["w1", "w2"],
            "the settings have the key `switch`, which the network",
        ),
        (
            "[job]\nworkers = 5",
            &["w1", "w2"],
            "[job] in the settings has the key `workers`, which fol",
        ),
        (
            "[job]\naggregation = \"server\"",
            &["w1", "w2"],
            "the job needs a parameter server; leave",
        ),
        ("[group]\nnothing = 1", &["w1", "w2"], "unknown key `nothing` in [group]"),
        ("", &["w1", "w2"], "no controller answers at 127.0.0.1:9 (Connection refused"),
    ] {
        let error = site.request(settings, hosts);
        assert!(error.contains(why), "{error}");
    }
    let error = Site::new("atp").request("", &["w1", "w2"]);
    assert!(error.starts_with("the network's protocol is atp, whose jobs need a par"), "{error}");
}

#[test]
fn certificates_and_address_must_fit() {
    let missing = "/nowhere/root.pem";
    for (address, variables, why) in [
        ("nowhere", &[][..], "TRIBUTARY_CONTROLLER: `nowhere` is not the address of a controller"),
        ("https://a:1", &[], "there is no root for its certificate"),
        ("a:1", &[("TRIBUTARY_CERT", "c")], "only one of TRIBUTARY_CERT and TRIBUTARY_KEY is set"),
        ("a:1", &[("TRIBUTARY_CERT", "c"), ("TRIBUTARY_KEY", "k")], "need TRIBUTARY_CA, the root"),
        ("a:1", &[("TRIBUTARY_CA", missing)], "cannot use the TLS certificates: /nowhere/root.pem"),
    ] {
        let get = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name)?;
            Some(found.1.to_owned())
        };
        let error = format!("{:#}", admission::controller(address, &get).unwrap_err());
        assert!(error.contains(why) && error.lines().count() == 1, "{error}");
    }
    assert!(admission::controller("tributary://a:1", &|_| None).is_ok());
}

#[test]
fn the_network_decides_for_all_jobs_and_the_settings_for_one() {
    let network =
        format!("protocol = \"switchml\"\n[switch]\npool = 64\n{TOPOLOGY}[[job]]\n[[job]]\n");
    let hosts = ["w4", "w3"].map(str::to_owned);
    let settings = Settings::within("[job]\nslots = 4\nwindow = 2\n", &network, &hosts, TIMEOUT);
    let scenario = settings.unwrap().scenario().unwrap();
    let [job] = &scenario.jobs[..] else { panic!("one job") };
    let names: Vec<_> = job
        .workers
        .iter()
        .map(|&host| scenario.network.topology.host(host).name.as_str())
        .collect();
    assert_eq!((names, job.slots, job.window), (vec!["w4", "w3"], 4, 2));
    assert_eq!((scenario.network.switch.pool, scenario.network.worker_timeout), (64, TIMEOUT));
}
