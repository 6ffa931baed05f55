//! Groups of ranks at an external controller, as processes in network namespaces.
//!
//! ```text
//! w1, w2, w3 (a rank each), control (the controller) ── s1
//! ```
//!
//! or, with two racks:
//!
//! ```text
//! w1, w2 ── s1 ── s2 ── w3, control
//! ```
//!
//! The test program is also the program of the ranks: see [`rank`].

mod net;
mod rank;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial};
use tributary_run::testbed::{Process, Stream, enter_user_namespace_if_needed};

use net::{Group, Net, RANKS};

/// How long ranks may take to come back to a controller that was started again, and how soon what takes no time happens.
const GRACE: Duration = Duration::from_secs(10);
/// The first ID that the controller chooses for a job.
const FIRST: u32 = 65_535;
const SOON: Duration = Duration::from_secs(5);

const CASES: [(&str, fn()); 11] = [
    ("a_job_lives_as_long_as_its_group", a_job_lives_as_long_as_its_group),
    ("training_goes_on_without_the_controller", training_goes_on_without_the_controller),
    ("a_job_continues_in_other_runs", a_job_continues_in_other_runs),
    ("a_job_gets_a_parameter_server_of_its_network", a_job_gets_a_parameter_server),
    ("groups_sum_over_two_racks", groups_sum_over_two_racks),
    ("groups_of_the_same_name_share_a_parameter_server", groups_share_a_server),
    ("a_group_takes_a_job_that_was_admitted_for_it", a_group_takes_a_job_that_was_admitted),
    ("a_job_ends_when_a_rank_dies", a_job_ends_when_a_rank_dies),
    ("a_controller_that_forgets_the_job_ends_it", a_controller_that_forgets_the_job_ends_it),
    ("controllers_and_groups_authenticate_each_other", controllers_and_groups_authenticate),
    ("a_controller_that_cannot_serve_says_why", a_controller_that_cannot_serve_says_why),
];

fn main() -> ExitCode {
    if let Some(number) = rank::number() {
        return rank::run(number);
    }
    let arguments = Arguments::from_args();
    // This must happen before any thread is started.
    let obstacle = enter_user_namespace_if_needed().err();
    if let (Some(obstacle), false) = (&obstacle, arguments.list) {
        println!("skipped: {obstacle}");
    }
    let runs = obstacle.is_none();
    let trial = |&(name, case): &(&str, fn())| {
        Trial::test(name, move || {
            if runs {
                case();
            }
            Ok(())
        })
    };
    libtest_mimic::run(&arguments, CASES.iter().map(trial).collect()).exit_code()
}

fn a_job_lives_as_long_as_its_group() {
    for protocol in ["p4inc", "switchml"] {
        let net = Net::new(protocol);
        let controller = net.controller(&[]);
        let group = net.group(&[]);
        group.sum(5);
        // The job of the file has the first ID.
        assert_eq!(net.jobs(), [(FIRST, "groups".to_owned(), Some(true))]);
        group.leave();
        net.until_jobs(&[], SOON);
        assert!(net.is_free());
        let again = net.group(&[]);
        again.sum(5);
        again.leave();
        net::stop(&controller);
    }
}

fn training_goes_on_without_the_controller() {
    for protocol in ["p4inc", "switchml"] {
        let net = Net::new(protocol);
        let journal = net.path("journal.redb");
        let options = ["--journal", &*journal];
        let controller = net.controller(&options);
        let group = net.group(&[]);
        group.sum(5);
        net::slay(&controller);
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(2) {
            group.sum(20);
        }
        let away = begin.elapsed();
        let controller = net.controller(&options);
        assert!(controller.output(Stream::Out).contains("job groups (65535) goes on"));
        net.until_jobs(&[(FIRST, "groups".to_owned(), Some(true))], GRACE);
        let begin = Instant::now();
        let mut sums = 0;
        while begin.elapsed() < GRACE + Duration::from_secs(2) {
            group.sum(20);
            sums += 20;
        }
        println!("{protocol}: {sums} sums after {away:.1?} without a controller");

        // One that is stopped leaves the job to the next one, too.
        net::stop(&controller);
        group.sum(20);
        let controller = net.controller(&options);
        group.sum(20);
        group.leave();
        net.until_jobs(&[], Duration::from_secs(5));
        net::stop(&controller);
    }
}

/// A run has three sums. A controller that is killed leaves the change of runs to the next one, wherever in
/// it that happens.
fn a_job_continues_in_other_runs() {
    for protocol in ["p4inc", "switchml"] {
        let net = Net::new(protocol);
        let journal = net.path("journal.redb");
        let options = ["--journal", &*journal];
        let mut controller = net.controller(&options);
        let group = net.group(&[(rank::FRAGMENTS, "200")]);
        group.sum(10);
        for delay in 0..6 {
            std::thread::sleep(Duration::from_millis(70 * delay));
            net::slay(&controller);
            std::thread::sleep(Duration::from_millis(500));
            controller = net.controller(&options);
            group.sum(7);
        }
        assert_eq!(net.jobs(), [(FIRST, "groups".to_owned(), Some(true))]);
        group.leave();
        net.until_jobs(&[], Duration::from_secs(5));
        assert!(net.is_free());
        net::stop(&controller);
    }
}

/// Sums that one switch does not make alone, in each protocol that has a parameter server.
fn a_job_gets_a_parameter_server() {
    for (protocol, settings) in [("p4inc", "aggregation = \"server\"\n"), ("atp", ""), ("esa", "")]
    {
        let net = Net::new(protocol);
        let controller = net.controller(&[]);
        let variables = [(rank::SETTINGS, settings)];
        fail(&[net.first_rank(&variables)], "no host has one that takes part");
        let server = net.server();
        for _ in 0..2 {
            let group = net.group(&variables);
            group.sum(10);
            group.leave();
            net.until_jobs(&[], SOON);
        }
        // A run has three sums, and the server follows from each to the next.
        if protocol != "esa" {
            let group = net.group(&[variables[0], (rank::FRAGMENTS, "200")]);
            group.sum(10);
            group.leave();
        }
        net::stop(&server);
        net::stop(&controller);
    }
}

/// In each protocol that has a parameter server.
fn groups_sum_over_two_racks() {
    for protocol in ["atp", "esa", "p4inc"] {
        let net = Net::racks(protocol);
        let controller = net.controller(&[]);
        let server = net.server();
        let settings = if protocol == "p4inc" { "aggregation = \"network\"\n" } else { "" };
        for _ in 0..2 {
            let group = net.group(&[(rank::SETTINGS, settings)]);
            group.sum(10);
            group.leave();
            net.until_jobs(&[], SOON);
        }
        let mut group = net.group(&[(rank::SETTINGS, settings)]);
        group.sum(5);
        net::slay(&group.ranks.remove(2));
        fail(&group.ranks, "rank 2 is gone");
        net.until_jobs(&[], SOON);
        net::stop(&server);
        net::stop(&controller);
    }
}

/// Scripts have the same name, and ranks of two groups the same hosts.
fn groups_share_a_server() {
    for protocol in ["atp", "esa"] {
        let net = Net::new(protocol);
        let controller = net.controller(&[]);
        let server = net.server();
        let io = [("TRIBUTARY_IO", "packet")];
        let one = net.group(&io);
        one.sum(5);
        let two = net.group(&io);
        two.sum(10);
        one.sum(10);
        one.leave();
        two.sum(10);
        two.leave();
        net.until_jobs(&[], SOON);
        net::stop(&server);
        net::stop(&controller);
    }
}

/// As a placement manager and Slurm do.
fn a_group_takes_a_job_that_was_admitted() {
    let net = Net::new("p4inc");
    let controller = net.controller(&[]);
    let id = net.admit("planned").to_string();
    let given = [("TRIBUTARY_JOB", &*id), ("TRIBUTARY_WORKERS", "w1,w2,w3")];
    // It stays when its processes end, for those that are started again.
    for _ in 0..2 {
        let group = net.group(&given);
        group.sum(5);
        assert_eq!(net.jobs(), [(FIRST, "planned".to_owned(), None)]);
        group.leave();
    }
    let mut group = net.group(&given);
    group.sum(5);
    net::slay(&group.ranks.remove(1));
    fail(&group.ranks, "rank 1 is gone");
    let group = net.group(&given);
    group.sum(5);
    group.leave();
    net.release(FIRST);
    assert!(net.is_free());
    net::stop(&controller);
}

fn a_job_ends_when_a_rank_dies() {
    let net = Net::new("p4inc");
    let controller = net.controller(&[]);
    for victim in [0, 2] {
        let mut group = net.group(&[]);
        group.sum(5);
        let begin = Instant::now();
        net::slay(&group.ranks.remove(victim));
        fail(&group.ranks, &format!("rank {victim} is gone"));
        let noticed = begin.elapsed();
        net.until_jobs(&[], SOON);
        assert!(noticed < SOON, "{noticed:?}");
        println!("the others noticed after {noticed:.1?}");
        assert!(net.is_free());
    }
    // Nothing is left that would disturb the next group.
    let group = net.group(&[]);
    group.sum(20);
    group.leave();
    net::stop(&controller);
}

fn a_controller_that_forgets_the_job_ends_it() {
    let net = Net::new("p4inc");
    let controller = net.controller(&[]);
    let group = net.group(&[]);
    group.sum(5);
    net::slay(&controller);
    group.sum(5);
    let controller = net.controller(&[]);
    fail(
        &group.ranks,
        "job groups: the controller at 10.9.1.9:29813 does not know it any more: it was released, or",
    );
    assert_eq!(net.jobs(), []);

    // A job that an operator releases ends its group, too.
    let group = net.group(&[]);
    group.sum(5);
    net.release(FIRST);
    fail(&group.ranks, "the controller has released job groups#65535");
    net::stop(&controller);
}

fn controllers_and_groups_authenticate() {
    let net = Net::new("p4inc");
    let [root, certificate, key] = net.certificates();
    let [other_root, other_certificate, other_key] = net.certificates();
    let own =
        net.identity("own", &[("ca.pem", &root), ("cert.pem", &certificate), ("key.pem", &key)]);
    let strange = net.identity(
        "strange",
        &[("ca.pem", &root), ("cert.pem", &other_certificate), ("key.pem", &other_key)],
    );
    let rooted = net.identity("rooted", &[("ca.pem", &root)]);
    let elsewhere = net.identity("elsewhere", &[("ca.pem", &other_root)]);
    let mutual = ["--listen", net::ADDRESS, "--on-demand", "--identity", &own];
    let controller = net.serving_controller(&mutual);
    let secured = ("TRIBUTARY_CONTROLLER", "https://10.9.1.9:29813");
    let known = [secured, ("TRIBUTARY_IDENTITY", &own)];
    let group = net.group(&known);
    group.sum(5);
    group.leave();
    let stranger = [secured, ("TRIBUTARY_IDENTITY", &strange)];
    let refused: [(&[(&str, &str)], &str); 4] = [
        (&[secured], "there is no root for its certificate"),
        (&[secured, ("TRIBUTARY_IDENTITY", &elsewhere)], "is signed by an unknown authority"),
        (&[secured, ("TRIBUTARY_IDENTITY", &rooted)], "10.9.1.9:29813"),
        (&stranger, "10.9.1.9:29813"),
    ];
    for (variables, why) in refused {
        fail(&[net.first_rank(variables)], why);
    }
    fail(
        &[net.first_rank(&[("TRIBUTARY_CONTROLLER", "http://10.9.1.8:1")])],
        "no controller answers",
    );
    net::stop(&controller);
}

fn a_controller_that_cannot_serve_says_why() {
    let net = Net::new("p4inc");
    let journal = net.path("journal.redb");
    let controller = net.controller(&["--journal", &journal]);
    let [root, certificate, key] = net.certificates();
    let rootless = net.identity("own", &[("cert.pem", &certificate), ("key.pem", &key)]);
    let mixed = net.identity("mixed", &[("ca.pem", &root), ("cert.pem", &key), ("key.pem", &key)]);
    let unix = ["--on-demand", "--listen", "unix:/tmp/never.sock", "--identity", &rootless];
    let mixed = ["--listen", "10.9.1.9:1", "--identity", &mixed];
    let access = net.path("access.toml");
    let [address, anyone] = ["10.9.1.9:1", "--allow-anyone"];
    for (options, why) in [
        (&["--listen", address, anyone, "--journal", &journal][..], "another process has it open"),
        (&unix, "a Unix socket needs no TLS; leave out --identity"),
        (&mixed, "there is no certificate in PEM form in it"),
        (&["--listen", address], "anyone who reaches this address would have full control"),
        (&["--listen", address, "--identity", &rootless], "would have full control"),
        (&["--listen", address, anyone, "--access", &access], "by their certificates"),
    ] {
        fail(&[net.failing_controller(options)], why);
    }
    net::stop(&controller);
}

/// These processes end with one line that says why.
fn fail(ranks: &[Process], why: &str) {
    for rank in ranks {
        let status = rank.wait(Some(net::DEADLINE)).unwrap().expect("it ends");
        let errors = rank.output(Stream::Err);
        let lines: Vec<&str> = errors.lines().filter(|line| line.starts_with("error: ")).collect();
        assert!(status.code() == Some(1) && lines.len() == 1, "{errors}");
        assert!(lines[0].contains(why), "{why}: {errors}");
    }
}

impl Group {
    /// Waits until the first rank has made so many more sums.
    fn sum(&self, more: usize) {
        let sums = || self.ranks[0].output(Stream::Out).lines().count();
        let (begin, goal) = (Instant::now(), sums() + more);
        while sums() < goal {
            for rank in &self.ranks {
                let status = rank.wait(Some(Duration::from_millis(5))).unwrap();
                assert!(status.is_none(), "{}", rank.output(Stream::Err));
            }
            assert!(begin.elapsed() < net::DEADLINE, "the group makes no progress");
        }
    }

    /// Has all ranks leave in order.
    fn leave(self) {
        std::fs::write(self.directory.join("stop"), "").unwrap();
        for rank in &self.ranks {
            let status = rank.wait(Some(net::DEADLINE)).unwrap().expect("it ends");
            assert!(status.success(), "{}", rank.output(Stream::Err));
        }
        assert_eq!(self.ranks.len(), usize::from(RANKS));
    }
}
