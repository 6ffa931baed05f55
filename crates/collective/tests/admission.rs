//! Groups at a controller: what is refused before a packet is sent, each in one line.

use tributary_collective::{Members, Station, admission};

/// A rank at a controller that does not exist, with these variables.
fn find(variables: &[(&str, &str)]) -> Result<Station, String> {
    let defaults = [
        ("TRIBUTARY_CONTROLLER", "127.0.0.1:9"),
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

#[test]
fn a_station_is_found_by_its_variables() {
    assert_eq!(find(&[]).unwrap().host(), "w1");
    for io in ["udp", "packet", "gso", "xdp", "udp-gso"] {
        assert!(find(&[("TRIBUTARY_IO", io)]).is_ok());
    }
    for (variable, why) in [
        (("TRIBUTARY_CONTROLLER", ""), "TRIBUTARY_CONTROLLER is not set"),
        (("TRIBUTARY_HOST", ""), "this machine has no IP address, by which the controller could"),
        (("TRIBUTARY_IO", "dpdk"), "TRIBUTARY_IO is \"dpdk\": unknown packet I/O `dpdk`; choose"),
    ] {
        let error = find(&[variable]).unwrap_err();
        assert!(error.contains(why), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn settings_that_the_network_or_the_group_decides_are_refused() {
    let station = find(&[]).unwrap();
    for (settings, hosts, why) in [
        ("", &["w1", "w2", "w1"][..], "ranks 0 and 2 are on host `w1`, which is one worker"),
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
            "[job]\non_death = \"continue\"",
            &["w1", "w2"],
            "a group ends with the first rank that dies",
        ),
        (
            "[job]\nthreads = 2",
            &["w1", "w2"],
            "the settings have threads, and a rank at a controller",
        ),
        ("[group]\nnothing = 1", &["w1", "w2"], "unknown key `nothing` in [group]"),
        ("", &["w1", "w2"], "no controller answers at 127.0.0.1:9 (Connection refused"),
    ] {
        let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
        let members = Members::each_alone(hosts.len() as u16);
        let admitted = admission::admit(&station, settings, "test", &members, &hosts);
        let error = format!("{:#}", admitted.expect_err("it is refused"));
        assert!(error.contains(why), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn a_job_that_was_admitted_for_the_ranks_is_theirs() {
    let given = |variables: &[(&str, &str)], settings, ranks| {
        let get = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name)?;
            Some(found.1.to_owned())
        };
        let given = admission::given(&get, settings, &Members::each_alone(ranks));
        given.map(|job| job.map(|job| job.job)).map_err(|error| format!("{error:#}"))
    };
    let all = [("TRIBUTARY_JOB", "7"), ("TRIBUTARY_WORKERS", "w1,w2")];
    assert_eq!(given(&all, "", 2), Ok(Some(7)));
    // A group of some ranks, or of several on a host, has a job of its own.
    assert_eq!(given(&all, "", 4), Ok(None));
    assert_eq!(given(&all[..1], "", 2), Ok(None));
    let error = given(&all, "[job]\nslots = 4\n", 2).unwrap_err();
    assert!(error.contains("the job was admitted already (TRIBUTARY_JOB=7)"), "{error}");
    let wrong = [("TRIBUTARY_JOB", "resnet"), all[1]];
    let error = given(&wrong, "", 2).unwrap_err();
    assert!(error.contains("TRIBUTARY_JOB is \"resnet\", which is not the ID"), "{error}");
}

#[test]
fn certificates_and_address_must_fit() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("key.pem"), "a key").unwrap();
    let rootless = directory.path().to_str().unwrap();
    for (address, variables, why) in [
        ("nowhere", &[][..], "TRIBUTARY_CONTROLLER: `nowhere` is not the address of a controller"),
        ("https://a:1", &[], "there is no root for its certificate"),
        (
            "a:1",
            &[("TRIBUTARY_CONTROLLER_NAME", "c")],
            "needs TRIBUTARY_IDENTITY, a directory with the root",
        ),
        ("a:1", &[("TRIBUTARY_IDENTITY", rootless)], "/ca.pem"),
        (
            "a:1",
            &[("TRIBUTARY_IDENTITY", "/nowhere")],
            "cannot use the TLS certificates: /nowhere/ca.pem",
        ),
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
