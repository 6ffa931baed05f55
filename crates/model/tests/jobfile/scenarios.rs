//! The scenarios of valid job files.

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use tributary_model::jobfile::{Place, Site, load, parse};
use tributary_model::papers::{Paper, Rules};
use tributary_model::{
    Aggregation, Duty, End, HostId, JobSpec, Lane, LinkFaults, Network, OnDeath, OnUnderflow,
    Preemption, Profile, Protocol, Scenario, SwitchId, Topology, Workload, worker_index,
};
use tributary_protocol::priority::Code;
use tributary_protocol::rtt::RttConfig;
use tributary_protocol::{Addressing, Assignment, LaterResults, Mode, Readings, Recovery};
use tributary_wire::{Host, JobId, Mac, WorkerIndex};

fn scenario(text: &str) -> Scenario {
    parse(text, "dir/small.toml").unwrap_or_else(|error| panic!("{error}"))
}

fn names(topology: &Topology, hosts: &[HostId]) -> Vec<String> {
    hosts.iter().map(|&host| topology.host(host).name.clone()).collect()
}

fn example(name: &str) -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    load(path).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn links_have_the_rate_and_latency_of_the_topology_unless_they_set_their_own() {
    let us = |us| Some(Duration::from_micros(us));
    let timing = |text: &str| -> Vec<(Option<u64>, Option<Duration>)> {
        let topology = scenario(text).network.topology;
        assert_eq!(topology.has_timing(), text.contains("rate"));
        topology.links.iter().map(|link| (link.rate, link.latency)).collect()
    };
    assert_eq!(timing("[topology]\nworkers = 1\n[[job]]\n"), [(None, None); 2]);
    let own = |a: &str, b: &str| {
        format!("[[topology.link]]\nbetween = [\"{a}\", \"{b}\"]\nrate = \"2.5 Gbit\"\n[[job]]\n")
    };
    let all = "rate = \"100Gb/s\"\nlatency = \"500us\"\n";
    let [general, special] = [(Some(100_000_000_000), us(500)), (Some(2_500_000_000), us(500))];
    assert_eq!(
        timing(&format!("[topology]\nworkers = 2\n{all}{}", own("s1", "w2"))),
        [general, special, general]
    );
    assert_eq!(
        timing(&format!(
            "[topology]\nracks = 2\nhosts_per_rack = 1\n{all}{}",
            own("rack1", "rack2")
        )),
        [general, general, general, special]
    );
    let explicit = "[[topology.switch]]\nname = \"s\"\n[[topology.host]]\nname = \"a\"\n\
                    [[topology.host]]\nname = \"b\"\nrole = \"ps\"\n[[topology.link]]\n\
                    between = [\"a\", \"s\"]\nlatency = \"0s\"\n";
    assert_eq!(
        timing(&format!("[topology]\n{all}{explicit}{}", own("b", "s"))),
        [(general.0, us(0)), special]
    );
}

#[test]
fn the_smallest_file_is_one_line() {
    let scenario = scenario("[[job]]");
    assert_eq!(scenario.name, "small");
    assert_eq!((scenario.seed, scenario.network.switch.values_per_packet), (1, 64));
    assert_eq!(scenario.network.switch.idle_timeout, Duration::from_millis(50));
    let job = &scenario.jobs[0];
    assert_eq!((job.id.get(), job.name.as_str(), job.protocol), (1, "job1", Protocol::Atp));
    assert_eq!(names(&scenario.network.topology, &job.workers), ["w1", "w2", "w3", "w4"]);
    assert_eq!(scenario.network.topology.host(job.server()).name, "ps");
    assert_eq!((job.slots, job.window), (256, 234), "60 KB of payload, 256 bytes a packet");
    assert!(matches!(&job.workload, Workload::Random(random) if random.elements == 250_000));
    assert!(!job.workload.shares_verification());
}

#[test]
fn a_job_may_set_its_id_and_share_a_host_with_its_parameter_server() {
    let scenario = scenario("[[job]]\nid = 700\nworkers = [\"w1\"]\nps = \"w1\"\n[[job]]\n");
    let ids: Vec<u16> = scenario.jobs.iter().map(|job| job.id.get()).collect();
    assert_eq!(ids, [700, 2]);
    assert_eq!(scenario.jobs[0].workers, [scenario.jobs[0].server()]);
}

#[test]
fn threads_of_a_job_are_jobs_of_their_own_in_the_network() {
    let file = "protocol = \"p4inc\"\n[switch]\npool = 1200\n[topology]\nkind = \"star\"\n\
        workers = 4\n[[job]]\nname = \"a\"\nid = 3\nthreads = 3\nworkers = 2\nrate = \"10Gb/s\"\n\
        [[job]]\nworkers = 2\n[[job]]\nid = 1\nworkers = 2\nthreads = 2\n";
    let mut scenario = scenario(file);
    let lanes: Vec<_> = scenario.jobs.iter().map(|job| (&*job.name, job.id.get())).collect();
    assert_eq!(lanes, [("a", 3), ("a/1", 4), ("a/2", 5), ("job2", 2), ("job3", 1), ("job3/1", 6)]);
    let of = |job: usize| (scenario.lanes(job), scenario.jobs[job].lane);
    assert_eq!(of(1), (0..3, Lane { index: 1, count: 3 }));
    assert_eq!(of(3), (3..4, Lane::default()));
    assert_eq!(of(5), (4..6, Lane { index: 1, count: 2 }));
    let whole: Vec<usize> = scenario.whole_jobs().map(|(index, _)| index).collect();
    assert_eq!(whole, [0, 3, 4]);
    for job in &scenario.jobs {
        assert_eq!(job.segment, 128, "the power of two within a sixth of the pool");
        assert_eq!(job.epoch.get(), u32::from(job.id.get()));
    }
    let (first, last) = (&scenario.jobs[0], &scenario.jobs[2]);
    assert_eq!((&last.workers, &last.workload), (&first.workers, &first.workload));
    let rates = scenario.jobs[..3].iter().map(|lane| {
        let config = scenario.network.worker_config(lane, Assignment::NONE, worker_index(0));
        config.rate.map(|rate| rate.get())
    });
    assert_eq!(rates.collect::<Vec<_>>(), [Some(3_333_333_333); 3], "a third of the worker's rate");
    assert_eq!(scenario.server_threads(scenario.jobs[0].workers[0]), 1, "no server");
    scenario.join_lanes();
    let joined: Vec<_> = scenario.jobs.iter().map(|job| (&*job.name, job.lane)).collect();
    assert_eq!(joined, ["a", "job2", "job3"].map(|name| (name, Lane::default())));
}

#[test]
fn servers_of_a_host_have_as_many_threads_as_its_widest_job() {
    let jobs = "[[job]]\nthreads = 2\n[[job]]\nthreads = 3\n[[job]]\n";
    for (protocol, threads) in [("atp", 3), ("esa", 1)] {
        let head = format!("protocol = \"{protocol}\"\n[topology]\nworkers = 12\nps_hosts = 1\n");
        let scenario = scenario(&format!("{head}{jobs}"));
        assert_eq!(scenario.server_threads(scenario.jobs[0].server()), threads);
        let served: Vec<usize> = scenario.jobs.iter().map(|job| job.lane.thread(threads)).collect();
        let expected = [0, 1 % threads, 0, 1 % threads, 2 % threads, 0];
        assert_eq!(served, expected);
    }
}

#[test]
fn a_star_is_addressed_and_its_ports_are_numbered() {
    let topology = scenario("[[job]]").network.topology;
    assert_eq!((topology.switches.len(), topology.hosts.len(), topology.links.len()), (1, 5, 5));
    for (index, host) in topology.hosts.iter().enumerate() {
        let number = u8::try_from(index).unwrap() + 1;
        assert_eq!(host.address.ip, Ipv4Addr::new(10, 0, 1, number));
        assert_eq!(host.address.mac, Mac([2, 0, 10, 0, 1, number]));
        let (switch, port) = topology.attachment(HostId(index));
        assert_eq!((switch, port), (SwitchId(0), u16::from(number)));
        assert_eq!(topology.link(host.link).mtu, 1500);
    }
    let ports: Vec<(u16, End)> =
        topology.ports(SwitchId(0)).map(|(port, _, peer)| (port, peer)).collect();
    assert_eq!(ports[4], (5, End::Host(HostId(4))));
}

#[test]
fn two_racks_are_linked_to_each_other_and_three_to_a_spine() {
    let two = scenario("[topology]\nracks = 2\n[[job]]").network.topology;
    assert_eq!(
        two.switches.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(),
        ["rack1", "rack2"]
    );
    assert_eq!(two.host(two.host_named("w3").unwrap()).address.ip, Ipv4Addr::new(10, 0, 2, 1));
    let uplink = two.links.last().unwrap();
    assert_eq!(uplink.ends, [End::Switch(SwitchId(0), 4), End::Switch(SwitchId(1), 3)]);

    let three = scenario("[topology]\nracks = 3\nps_rack = 2\n[[job]]");
    let spine = three.network.topology.switch_named("spine").unwrap();
    assert_eq!(three.network.topology.ports(spine).count(), 3);
    let ps = three.network.topology.attachment(three.jobs[0].server()).0;
    assert_eq!(three.network.topology.switch(ps).name, "rack2");
    assert_eq!(three.jobs[0].workers.len(), 6, "one job takes all hosts");
}

#[test]
fn jobs_spread_over_the_hosts() {
    let scenario = scenario("[[job]]\nworkers = 2\n[[job]]\nworkers = 3\n");
    let topology = &scenario.network.topology;
    assert_eq!(names(topology, &scenario.jobs[0].workers), ["w1", "w2"]);
    assert_eq!(names(topology, &scenario.jobs[1].workers), ["w3", "w4", "w5"]);
    let servers: Vec<HostId> = scenario.jobs.iter().map(JobSpec::server).collect();
    assert_eq!(names(topology, &servers), ["ps1", "ps2"], "each job has its own");
    assert_ne!(
        format!("{:?}", scenario.jobs[0].workload),
        format!("{:?}", scenario.jobs[1].workload),
        "different numbers"
    );

    let crowded =
        parse("[topology]\nworkers = 3\n[[job]]\nworkers = 2\n[[job]]\nworkers = 2\n", "f");
    let crowded = crowded.unwrap();
    assert_eq!(names(&crowded.network.topology, &crowded.jobs[1].workers), ["w1", "w3"]);
    let duties: Vec<(u16, Duty)> =
        crowded.duties(HostId(0)).map(|(job, duty)| (job.id.get(), duty)).collect();
    let worker = Duty::Worker(WorkerIndex::new(0).unwrap());
    assert_eq!(duties, [(1, worker), (2, worker)]);
    let ps = crowded.jobs[1].server();
    assert!(
        crowded.duties(ps).any(|(job, duty)| job.id.get() == 2 && duty == Duty::ParameterServer)
    );
}

#[test]
fn jobs_override_the_protocol_table() {
    let scenario = scenario(
        "[protocol]\nslots = 16\nwindow = 4\nscale = 100\n[[job]]\njitter = \"300us\"\n[[job]]\nslots = 32\nscale = 2.5\n",
    );
    let jitters: Vec<Duration> = scenario.jobs.iter().map(|job| job.jitter).collect();
    assert_eq!(jitters, [Duration::from_micros(300), Duration::ZERO]);
    let of = |index: usize| {
        let job = &scenario.jobs[index];
        (job.slots, job.window, job.scale)
    };
    assert_eq!(of(0), (16, 4, 100.0));
    assert_eq!(of(1), (32, 4, 2.5));
}

#[test]
fn a_file_may_set_its_timeouts_and_what_later_results_do() {
    let of = |keys: &str| {
        let Network { timeouts, readings, .. } =
            scenario(&format!("[protocol]\n{keys}[[job]]\n")).network;
        (timeouts, readings)
    };
    let readings = Readings::default();
    assert_eq!(of(""), (RttConfig::default(), readings));
    let ms = Duration::from_millis;
    let keys = "initial_timeout = \"2ms\"\nmin_timeout = \"3ms\"\nmax_timeout = \"4s\"\n";
    let timeouts = RttConfig { initial: ms(2), min: ms(3), max: ms(4000) };
    assert_eq!(of(keys), (timeouts, readings));
    for (word, later_results) in [("halve", LaterResults::Halve), ("leave", LaterResults::Ignore)] {
        let keys = format!("recovery = \"papers\"\nlater_results = \"{word}\"\n");
        assert_eq!(of(&keys), (RttConfig::default(), Readings { later_results, ..readings }));
    }
}

/// What a profile sets, and the slots and the window of the first job.
fn rules(text: &str) -> Rules {
    let Scenario { network, jobs, .. } = scenario(text);
    let Network { protocol, recovery, addressing, priorities, readings, timeouts, .. } = network;
    let JobSpec { window, slots, .. } = jobs[0];
    Rules { protocol, recovery, addressing, priorities, readings, timeouts, window, slots }
}

#[test]
fn a_profile_sets_the_rules_of_its_paper() {
    for (name, paper) in [("esa-paper", Paper::Esa), ("atp-paper", Paper::Atp)] {
        assert_eq!(rules(&format!("profile = \"{name}\"\n[[job]]\n")), paper.rules());
    }
    // A job of SwitchML has at most one slot for each pair of aggregators in its partition.
    let large = "profile = \"switchml-paper\"\n[switch]\npool = 16384\n[[job]]\n";
    assert_eq!(rules(large), Paper::SwitchMl.rules());
    let slots = rules("profile = \"switchml-paper\"\n[[job]]\n").slots;
    assert_eq!(slots, 256);
    for paper in Paper::ALL {
        let Rules { timeouts, window, slots, .. } = paper.rules();
        let ms = Duration::from_millis;
        assert_eq!(timeouts, RttConfig { initial: ms(1), min: ms(1), max: ms(100) });
        assert_eq!((window, slots), (196, 1024), "60 KB in packets of 306 bytes");
    }
}

#[test]
fn keys_of_the_file_win_over_its_profile() {
    let paper = Paper::Esa.rules();
    let of = |more: &str| rules(&format!("profile = \"esa-paper\"\n{more}"));
    for same in ["protocol = \"esa\"\n[[job]]\n", "[protocol]\nkind = \"esa\"\n[[job]]\n"] {
        assert_eq!(of(same), paper);
    }
    assert_eq!(of("[[job]]\nprotocol = \"esa\"\n"), paper);
    let with = |keys: &str| of(&format!("[protocol]\n{keys}\n[[job]]\n"));
    assert_eq!(with("recovery = \"rack\""), Rules { recovery: Recovery::Rack, ..paper });
    assert_eq!(
        with("addressing = \"default\""),
        Rules { addressing: Addressing::Default, ..paper }
    );
    assert_eq!(
        with("priority_unit = 2"),
        Rules { priorities: Code::Linear { unit: 2.0 }, ..paper }
    );
    let readings = Readings { later_results: LaterResults::Halve, ..paper.readings };
    assert_eq!(with("later_results = \"halve\""), Rules { readings, ..paper });
    let timeouts = RttConfig { initial: Duration::from_millis(20), ..paper.timeouts };
    assert_eq!(with("initial_timeout = \"20ms\""), Rules { timeouts, ..paper });
    assert_eq!(with("window = 7"), Rules { window: 7, ..paper });
    assert_eq!(with("slots = 64"), Rules { slots: 64, window: 64, ..paper });
    assert_eq!(of("[[job]]\nslots = 512\nwindow = 9\n"), Rules { slots: 512, window: 9, ..paper });
}

#[test]
fn the_rules_of_a_network_are_one_line() {
    let of = |text: &str| scenario(&format!("{text}[[job]]\n")).network.rules();
    assert_eq!(
        of("profile = \"esa-paper\"\n[protocol]\npriority_unit = 0.5\nmax_timeout = \"1s\"\n"),
        "protocol \"esa\"; recovery \"papers\", later results leave windows; addressing \"hashed\"; \
         priorities in units of 0.5; timeouts of 1ms to 1s, first 1ms"
    );
    assert_eq!(
        of("[protocol]\nkind = \"p4inc\"\nrecovery = \"papers\"\n"),
        "protocol \"p4inc\"; recovery \"papers\", later results halve windows; timeouts of 1ms to 100ms, \
         first 20ms"
    );
    assert_eq!(
        of(""),
        "protocol \"atp\"; recovery \"rack\"; addressing \"default\"; timeouts of 1ms to 100ms, first 20ms"
    );
}

#[test]
fn a_job_that_comes_later_has_the_rules_of_its_networks_profile() {
    let file = "profile = \"atp-paper\"\n[topology]\nworkers = 2\n[[job]]\n";
    let site = Site::of(file, "f.toml").unwrap();
    let place = || Place {
        id: JobId::new(1).unwrap(),
        name: "later".into(),
        workers: vec![HostId(0), HostId(1)],
        group: false,
    };
    let ps = scenario(file).jobs[0].ps;
    let later = site.job(place(), "[job]\nslots = 512\n", || ps).unwrap();
    assert_eq!((later.protocol, later.slots, later.window), (Protocol::Atp, 512, 196));
    let error = site.job(place(), "[job]\nprotocol = \"esa\"\n", || ps).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the job's settings:2:12: `protocol` is \"esa\", but the profile \"atp-paper\" is for \"atp\"; leave \
         `protocol` or `profile` out"
    );
}

#[test]
fn a_file_names_its_protocol_in_one_of_three_places() {
    for text in [
        "protocol = \"esa\"\n[[job]]\n[[job]]\n",
        "[protocol]\nkind = \"esa\"\n[[job]]\n[[job]]\n",
        "[[job]]\nprotocol = \"esa\"\n[[job]]\n",
        "[[job]]\n[[job]]\nprotocol = \"esa\"\n",
        "protocol = \"esa\"\n[[job]]\nprotocol = \"esa\"\n[[job]]\n",
    ] {
        let scenario = scenario(text);
        assert_eq!(scenario.network.protocol, Protocol::Esa, "{text}");
        assert!(scenario.jobs.iter().all(|job| job.protocol == Protocol::Esa), "{text}");
        assert_eq!(scenario.network.switch.preemption, Preemption::Priority);
    }
    for text in ["protocol = \"atp\"\n[[job]]\n", "[protocol]\nslots = 2\nwindow = 1\n[[job]]\n"] {
        assert_eq!(scenario(text).network.protocol, Protocol::Atp, "{text}");
    }
}

#[test]
fn esa_jobs_have_a_profile_and_an_agent() {
    let scenario = scenario(
        "protocol = \"esa\"\n[topology]\nworkers = 4\nps_hosts = 2\n[switch]\npreemption = \"coin\"\n\
         [[job]]\nworkers = 2\nlayers = 12\ncommunication = \"2ms\"\ncomputation = \"500us\"\n\
         remaining = \"30s\"\nagent = \"ps2\"\n[[job]]\nworkers = 2\n",
    );
    assert_eq!(scenario.network.switch.preemption, Preemption::Coin);
    let [first, second] = &scenario.jobs[..] else { panic!("two jobs") };
    let profile = Profile {
        layers: 12,
        communication: Duration::from_millis(2),
        computation: Duration::from_micros(500),
        remaining: Some(Duration::from_secs(30)),
    };
    assert_eq!((first.profile, second.profile), (profile, Profile::default()));
    assert_eq!(
        names(&scenario.network.topology, &[first.server(), first.agent.unwrap()]),
        ["ps1", "ps2"]
    );
    assert_eq!(second.agent, second.ps);
    let duties: Vec<(u16, Duty)> =
        scenario.duties(first.agent.unwrap()).map(|(job, duty)| (job.id.get(), duty)).collect();
    assert_eq!(duties, [(1, Duty::ReminderAgent), (2, Duty::ParameterServer)]);
    assert_eq!(scenario.duties(first.server()).count(), 1, "an agent of one's own is no duty here");
}

#[test]
fn a_local_job_of_p4inc_needs_a_segment_and_no_parameter_server() {
    let scenario = scenario("protocol = \"p4inc\"\n[[job]]\n");
    let topology = &scenario.network.topology;
    assert_eq!(topology.hosts.len(), 4, "no host for a parameter server");
    let job = &scenario.jobs[0];
    assert_eq!((job.ps, job.agent, scenario.network.mode(job)), (None, None, Mode::Local));
    assert_eq!((job.aggregation, job.segment, job.slots), (Aggregation::Network, 256, 256));
    let index = WorkerIndex::new(2).unwrap();
    let config = scenario.network.worker_config(job, Assignment::NONE, index);
    assert_eq!(config.server, Host::service(job.id));
    assert!(scenario.duties(HostId(0)).all(|(_, duty)| matches!(duty, Duty::Worker(_))));
}

#[test]
fn segments_are_as_large_as_the_window_may_grow_within_the_jobs_share() {
    let of = |text: &str| -> Vec<(u32, u32, u32)> {
        let scenario = scenario(&format!("protocol = \"p4inc\"\n[topology]\nworkers = 4\n{text}"));
        scenario.jobs.iter().map(|job| (job.segment, job.slots, job.window)).collect()
    };
    assert_eq!(of("[[job]]\nsegment = 100\n"), [(100, 64, 64)]);
    assert_eq!(of("[[job]]\nslots = 16\n"), [(16, 16, 16)]);
    assert_eq!(of("[[job]]\nsegment = 100\nslots = 8\nwindow = 2\n"), [(100, 8, 2)]);
    assert_eq!(of("[switch]\npool = 100\n[[job]]\n[[job]]\n"), [(32, 32, 32); 2]);
    assert_eq!(of("[switch]\npool = 1\n[[job]]\n[[job]]\n"), [(1, 1, 1); 2]);
    // A job that is summed at the parameter server leaves its share to the other jobs.
    let server = "aggregation = \"server\"\n";
    let jobs = of(&format!("[switch]\npool = 100\n[[job]]\n[[job]]\n{server}"));
    assert_eq!(jobs, [(64, 64, 64), (100, 256, 234)]);
}

#[test]
fn jobs_of_p4inc_over_several_units_have_a_parameter_server() {
    let scenario = scenario(
        "protocol = \"p4inc\"\n[topology]\nracks = 2\nps_hosts = 1\n[switch]\npool = 64\n\
         [[job]]\nworkers = [\"w1\", \"w2\"]\n[[job]]\nworkers = [\"w1\", \"w3\"]\nslots = 128\n\
         [[job]]\nworkers = [\"w3\", \"w4\"]\naggregation = \"server\"\n\
         [[job]]\nworkers = [\"w3\", \"w4\"]\nps = \"ps\"\n",
    );
    let ps = scenario.network.topology.host_named("ps");
    let jobs: Vec<_> =
        scenario.jobs.iter().map(|job| (scenario.network.mode(job), job.ps)).collect();
    let expected = [
        (Mode::Local, None),
        (Mode::Partial, ps),
        (Mode::Forwarded, ps),
        // The job does not need the parameter server, but can be moved there.
        (Mode::Local, ps),
    ];
    assert_eq!(jobs, expected);
    let across = &scenario.jobs[1];
    assert_eq!((across.segment, across.slots), (21, 128), "its window may outgrow its segment");
    assert_eq!(scenario.duties(ps.unwrap()).count(), 3);
}

#[test]
fn jobs_of_switchml_get_equal_static_parts() {
    let of = |text: &str| {
        let scenario = scenario(&format!("protocol = \"switchml\"\n{text}"));
        let job = &scenario.jobs[0];
        assert_eq!((job.ps, scenario.network.mode(job)), (None, Mode::Local));
        assert!(scenario.network.topology.hosts.iter().all(|host| host.name.starts_with('w')));
        (scenario.network.switch.partition(), job.segment, job.slots)
    };
    assert_eq!(of("[[job]]\n"), (512, 512, 256));
    assert_eq!(of("[switch]\npool = 100\n[[job]]\n"), (12, 12, 4));
    assert_eq!(of("[switch]\npool = 100\npartitions = 3\n[[job]]\nslots = 2\n"), (32, 32, 2));
    assert_eq!(of("[topology]\nracks = 2\n[[job]]\nworkers = [\"w3\", \"w4\"]\n"), (512, 512, 256));
}

#[test]
fn tensors_spread_over_the_layers() {
    let layers = |layers: u32, of: usize| -> Vec<u32> {
        let profile = Profile { layers, ..Profile::default() };
        (0..of).map(|tensor| profile.layer(tensor, of)).collect()
    };
    assert_eq!(layers(4, 4), [1, 2, 3, 4]);
    assert_eq!(layers(8, 4), [1, 3, 5, 7]);
    assert_eq!(layers(2, 4), [1, 1, 2, 2]);
    assert_eq!(layers(1, 3), [1, 1, 1]);
    let most = Profile { layers: u32::MAX, ..Profile::default() };
    assert_eq!(most.layer(usize::MAX - 1, usize::MAX), u32::MAX);
}

#[test]
fn priorities_follow_from_the_profile() {
    let second = Duration::from_secs(1);
    let profile = Profile { layers: 4, remaining: Some(10 * second), ..Profile::default() };
    let value =
        |tensor: usize, elapsed: Duration| profile.after(elapsed).value(profile.layer(tensor, 4));
    // 1/T · L/l, as much communication as computation.
    assert!((value(0, Duration::ZERO) - 0.4).abs() < 1e-12);
    assert!((value(3, Duration::ZERO) - 0.1).abs() < 1e-12);
    assert!((value(3, 8 * second) - 0.5).abs() < 1e-12, "two seconds remain");
    assert!(value(3, 99 * second).is_finite(), "it took longer than it said");
    // Unknown remaining time: a job with more attained service has a lower priority.
    let unknown = Profile { remaining: None, ..profile };
    assert!((unknown.after(5 * second).value(1) - 0.8).abs() < 1e-12);
    let code = Code::Logarithmic;
    assert!(unknown.priority(0, 1, second, code) > unknown.priority(0, 1, 20 * second, code));
    assert!(profile.priority(0, 4, second, code) > profile.priority(1, 4, second, code));
}

#[test]
fn faults_of_a_link_override_the_global_ones() {
    let scenario = scenario(
        "[faults]\nloss = 0.5\ndelay = \"1ms\"\n[[faults.link]]\nbetween = [\"s1\", \"w2\"]\nloss = 0\n[[job]]\n",
    );
    let faults = |name: &str| {
        let host = scenario.network.topology.host_named(name).unwrap();
        scenario.network.topology.link(scenario.network.topology.host(host).link).faults
    };
    let delay = Duration::from_millis(1);
    assert_eq!(faults("w1"), LinkFaults { loss: 0.5, delay, ..LinkFaults::default() });
    assert_eq!(faults("w2"), LinkFaults { delay, ..LinkFaults::default() });
    assert!(!faults("w2").is_none());
}

#[test]
fn jumbo_packets_get_jumbo_links() {
    let scenario = scenario("[protocol]\nvalues_per_packet = 2048\n[[job]]\n");
    assert_eq!(scenario.network.switch.packet_bytes(), 8248);
    assert!(scenario.network.topology.links.iter().all(|link| link.mtu == 9000));
    assert_eq!(scenario.jobs[0].window, 7);
}

#[test]
fn examples_match_their_comments() {
    let digits = example("digits.toml");
    assert_eq!(digits.jobs[0].workers.len(), 4);
    assert!(matches!(digits.jobs[0].workload, Workload::Digits(_)));
    assert_eq!(digits.network.topology.switches.len(), 1);

    let racks = example("two-racks.toml");
    assert_eq!(racks.network.topology.switches.len(), 2);
    let at = |host| racks.network.topology.attachment(host).0;
    let racks_of_workers: Vec<SwitchId> =
        racks.jobs[0].workers.iter().map(|&host| at(host)).collect();
    assert_eq!(racks_of_workers, [SwitchId(0), SwitchId(0), SwitchId(1), SwitchId(1)]);
    assert_eq!(at(racks.jobs[0].server()), SwitchId(0));

    let jobs = example("two-jobs.toml");
    assert_eq!(jobs.jobs.len(), 2);
    assert!(jobs.jobs.iter().all(|job| job.window > jobs.network.switch.pool));

    let lossy = example("lossy.toml");
    assert!(
        lossy.network.topology.links.iter().filter(|link| link.faults.loss >= 0.1).count() >= 4
    );
    assert!(lossy.network.topology.links.iter().all(|link| link.faults.duplicate == 0.05));
    let slow = lossy.jobs[0].straggler_delay(WorkerIndex::new(2).unwrap());
    assert_eq!(slow, Duration::from_millis(5));

    let esa = example("esa-two-jobs.toml");
    let [slow, quick] = &esa.jobs[..] else { panic!("two jobs") };
    assert_eq!(
        (esa.network.protocol, slow.workers.len(), quick.workers.len()),
        (Protocol::Esa, 4, 2)
    );
    assert_eq!(slow.stragglers.len(), 2);
    let priority = |job: &JobSpec| job.profile.priority(0, 1, Duration::ZERO, Code::Logarithmic);
    assert!(priority(quick) > priority(slow));
    assert!(quick.window <= esa.network.switch.pool && slow.window > esa.network.switch.pool);
    let racks = example("esa-two-racks.toml");
    assert_eq!((racks.network.protocol, racks.network.topology.switches.len()), (Protocol::Esa, 2));
    let lossy = example("esa-lossy.toml");
    assert_eq!(lossy.network.protocol, Protocol::Esa);
    assert!(lossy.network.topology.links.iter().all(|link| link.faults.loss > 0.0));

    let modes = |name: &str| -> Vec<Mode> {
        let scenario = example(name);
        scenario.jobs.iter().map(|job| scenario.network.mode(job)).collect()
    };
    assert_eq!(modes("p4inc-local.toml"), [Mode::Local]);
    assert_eq!(modes("p4inc-two-units.toml"), [Mode::Partial]);
    assert_eq!(modes("p4inc-both.toml"), [Mode::Local, Mode::Partial]);
    assert_eq!(modes("switchml.toml"), [Mode::Local; 2]);
    let units = &example("p4inc-two-units.toml").jobs[0];
    assert!(units.slots > units.segment, "its packets may come too early");

    let tensors = example("tensors.toml");
    let Workload::Files(files) = &tensors.jobs[0].workload else { panic!("files") };
    assert!(files.inputs.iter().all(|path| path.is_file()));
}

#[test]
fn underflow_is_warned_of_above_one_percent_unless_the_file_says_otherwise() {
    let of = |text: &str| {
        let jobs = scenario(text).jobs;
        jobs.iter().map(|job| (job.max_underflow, job.on_underflow)).collect::<Vec<_>>()
    };
    assert_eq!(of("[[job]]\n"), [(0.01, OnUnderflow::Warn)]);
    let file = "[protocol]\nmax_underflow = 0.5\non_underflow = \"fail\"\n\
                [[job]]\n[[job]]\nmax_underflow = 0\non_underflow = \"warn\"\n";
    assert_eq!(of(file), [(0.5, OnUnderflow::Fail), (0.0, OnUnderflow::Warn)]);
}

#[test]
fn a_job_ends_when_a_worker_dies_unless_it_may_go_on() {
    let on_death = |keys: &str| scenario(&format!("[[job]]\nworkers = 3\n{keys}")).jobs[0].on_death;
    assert_eq!(on_death(""), OnDeath::End);
    assert_eq!(on_death("on_death = \"end\"\n"), OnDeath::End);
    let goes_on = "on_death = \"continue\"\n";
    assert_eq!(on_death(goes_on), OnDeath::Continue { least: 1 });
    let least = format!("{goes_on}min_workers = 3\n");
    assert_eq!(on_death(&least), OnDeath::Continue { least: 3 });
}
