//! Every kind of error in a job file yields one line that points at the error and tells how to fix
//! it.

use tributary_model::jobfile::parse;

/// The message for an invalid file. The mark `‸`, which is removed, shows the expected position.
#[track_caller]
fn refused(marked: &str) -> String {
    let mark = marked.find('‸').expect("the test marks the fault");
    let text = marked.replacen('‸', "", 1);
    let before = &marked[..mark];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    let error = parse(&text, "f.toml").expect_err("the file is faulty");
    let message = error.to_string();
    assert_eq!(error.position(), Some((line, column)), "{message}\n{marked}");
    assert!(!message.contains('\n'), "{message}");
    let head = format!("f.toml:{line}:{column}: ");
    message.strip_prefix(&head).expect("the message starts with the position").to_owned()
}

#[test]
fn syntax() {
    let message = refused("[[job]]\nname = ‸\n");
    assert!(message.contains("docs/start/job-files.md"), "{message}");
    refused("[[job]]\nname = \"a\"\n‸name = \"b\"\n");
}

#[test]
fn unknown_keys_are_named_and_a_near_one_is_suggested() {
    assert_eq!(
        refused("[[job]]\n‸wokers = 4\n"),
        "unknown key `wokers` in [[job]]; did you mean `workers`?"
    );
    assert_eq!(
        refused("‸sed = 1\n[[job]]\n"),
        "unknown key `sed` in the job file; did you mean `seed`?"
    );
    assert_eq!(
        refused("[[job]]\nworkload = { kind = \"random\", ‸epochs = 3 }\n"),
        "unknown key `epochs` in the workload; the keys there are `tensors`, `repeat`, `warm_up`, \
         `elements`, `bytes`, `seed`, `distribution`, `magnitude`, `verify`, `kind`"
    );
    assert_eq!(
        refused("[topology]\nkind = \"star\"\n‸racks = 2\n[[job]]\n"),
        "unknown key `racks` in [topology]; the keys there are `workers`, `ps_hosts`, `link`, `mtu`, \
         `rate`, `latency`, `kind`"
    );
    assert_eq!(
        refused("[faults]\nloss = 0.1\n‸dublicate = 0.1\n[[job]]\n"),
        "unknown key `dublicate` in [faults]; did you mean `duplicate`?"
    );
    // The first error in the file is reported.
    refused("[switch]\n‸zebra = 1\nant = 2\n[[job]]\n");
}

#[test]
fn wrong_types() {
    assert_eq!(
        refused("[[job]]\nworkers = ‸\"four\"\n"),
        "`workers` is a string but must be a whole number; write for example 1"
    );
    assert_eq!(
        refused("timeout = ‸10\n[[job]]\n"),
        "`timeout` is an integer but must be a duration with its unit; write for example \"50ms\""
    );
    refused("[[job]]\nname = ‸7\n");
    refused("[[job]]\nworkload = ‸\"random\"\n");
    refused("job = ‸1\n");
    refused("job = [‸1]\n");
    refused("topology = ‸[]\n[[job]]\n");
    refused("[[job]]\nscale = ‸true\n");
    refused("[[job]]\nscale = ‸1979-05-27\n");
}

#[test]
fn values_out_of_range() {
    assert_eq!(
        refused("[faults]\nloss = ‸1.5\n[[job]]\n"),
        "`loss` is 1.5, out of range; choose a value from 0 to 1"
    );
    refused("[faults]\nloss = ‸-0.1\n[[job]]\n");
    refused("[faults]\nduplicate = ‸nan\n[[job]]\n");
    refused("[faults]\nreorder = ‸inf\n[[job]]\n");
    refused("[faults]\ndelay = ‸\"1min\"\n[[job]]\n");
    refused("[[faults.link]]\nbetween = [\"w1\", \"s1\"]\nloss = ‸2\n[[job]]\n");
    assert_eq!(
        refused("[switch]\npool = ‸0\n[[job]]\n"),
        "`pool` is 0, out of range; choose a value from 1 to 16777216"
    );
    assert_eq!(
        refused("[protocol]\nvalues_per_packet = ‸100\n[[job]]\n"),
        "a packet cannot carry 100 values; choose 32, 64, 256 or 2048"
    );
    assert_eq!(
        refused("[protocol]\nslots = ‸100\n[[job]]\n"),
        "100 slots are not a power of two; choose for example 128"
    );
    assert_eq!(
        refused("[[job]]\nslots = 64\nwindow = ‸65\n"),
        "a window of 65 packets is more than the 64 slots; choose a smaller window or more slots"
    );
    assert_eq!(
        refused("[switch]\nqueue_capacity = 10\necn_threshold = ‸10\n[[job]]\n"),
        "no queue passes 10 packets when it holds 10 at most; choose an ecn_threshold below \
         queue_capacity"
    );
    refused("[switch]\npool = ‸16777216\n[protocol]\nvalues_per_packet = 2048\n[[job]]\n");
    refused("[switch]\nidle_timeout = ‸\"1500ns\"\n[[job]]\n");
    refused("seed = ‸-1\n[[job]]\n");
    refused("seed = ‸18446744073709551616\n[[job]]\n");
    refused("timeout = ‸\"0s\"\n[[job]]\n");
    refused("timeout = ‸\"soon\"\n[[job]]\n");
    refused("[[job]]\nscale = ‸0\n");
    refused("[[job]]\nscale = ‸-1.0\n");
    refused("[[job]]\nname = ‸\"\"\n");
    refused("[[job]]\nname = ‸\"a\\nb\"\n");
    refused("[[job]]\nprotocol = ‸\"apt\"\n");
}

#[test]
fn protocols() {
    assert_eq!(
        refused("protocol = ‸\"eas\"\n[[job]]\n"),
        "`protocol` cannot be \"eas\"; did you mean \"esa\"?"
    );
    assert_eq!(
        refused("[protocol]\nkind = ‸\"horovod\"\n[[job]]\n"),
        "`kind` cannot be \"horovod\"; choose one of `atp`, `esa`, `p4inc`, `switchml`"
    );
    refused("[[job]]\n[[job]]\nprotocol = ‸\"p4\"\n");
    refused("protocol = ‸7\n[[job]]\n");
    assert_eq!(
        refused("protocol = \"esa\"\n[[job]]\n[[job]]\nprotocol = ‸\"atp\"\n"),
        "the job wants \"atp\" but the file uses \"esa\", and a switch runs one program; put jobs with \
         different protocols into different files"
    );
    refused("[[job]]\nprotocol = \"atp\"\n[[job]]\nprotocol = ‸\"esa\"\n");
}

#[test]
fn profiles() {
    assert_eq!(
        refused("profile = ‸\"esa-papers\"\n[[job]]\n"),
        "`profile` cannot be \"esa-papers\"; did you mean \"esa-paper\"?"
    );
    assert_eq!(
        refused("profile = ‸\"p4inc\"\n[[job]]\n"),
        "`profile` cannot be \"p4inc\"; choose one of `esa-paper`, `atp-paper`, `switchml-paper`"
    );
    refused("profile = ‸1\n[[job]]\n");
    assert_eq!(
        refused("[protocol]\n‸profile = \"esa-paper\"\n[[job]]\n"),
        "unknown key `profile` in [protocol]; the keys there are `kind`, `values_per_packet`, `scale`, \
         `max_underflow`, `on_underflow`, `slots`, `window`, `rate`, `recovery`, `addressing`, \
         `priority_unit`, `later_results`, `initial_timeout`, `min_timeout`, `max_timeout`"
    );
}

#[test]
fn a_protocol_that_contradicts_the_profile() {
    assert_eq!(
        refused("profile = \"esa-paper\"\n[protocol]\nkind = ‸\"atp\"\n[[job]]\n"),
        "`kind` is \"atp\", but the profile \"esa-paper\" is for \"esa\"; leave `kind` or `profile` out"
    );
    assert_eq!(
        refused("protocol = ‸\"p4inc\"\nprofile = \"switchml-paper\"\n[[job]]\n"),
        "`protocol` is \"p4inc\", but the profile \"switchml-paper\" is for \"switchml\"; leave `protocol` or \
         `profile` out"
    );
    assert_eq!(
        refused(
            "profile = \"atp-paper\"\n[[job]]\nprotocol = \"atp\"\n[[job]]\nprotocol = ‸\"esa\"\n"
        ),
        "`protocol` is \"esa\", but the profile \"atp-paper\" is for \"atp\"; leave `protocol` or `profile` out"
    );
    refused("profile = \"atp-paper\"\nprotocol = ‸\"apt\"\n[[job]]\n");
    assert_eq!(
        refused("profile = \"atp-paper\"\n[[job]]\nlayers = ‸3\n"),
        "`layers` means nothing to \"atp\", the protocol of this file; write `protocol = \"esa\"` at the \
         top of the file instead of `profile`, or leave `layers` out"
    );
    refused("profile = \"switchml-paper\"\n[protocol]\naddressing = ‸\"hashed\"\n[[job]]\n");
    refused("profile = \"esa-paper\"\n[protocol]\nmax_timeout = ‸\"500us\"\n[[job]]\n");
    let rack = "recovery = \"rack\"\nlater_results = ‸\"halve\"\n";
    refused(&format!("profile = \"esa-paper\"\n[protocol]\n{rack}[[job]]\n"));
}

#[test]
fn keys_of_the_other_protocol() {
    assert_eq!(
        refused("[[job]]\nlayers = ‸3\n"),
        "`layers` means nothing to \"atp\", the protocol of this file; write `protocol = \"esa\"` at the \
         top of the file, or leave `layers` out"
    );
    assert_eq!(
        refused("[protocol]\nslots = 512\n[[job]]\nremaining = ‸\"3s\"\n"),
        "`remaining` means nothing to \"atp\", the protocol of this file; write `kind = \"esa\"` into \
         [protocol], or leave `remaining` out"
    );
    for key in ["communication = ‸\"1ms\"", "computation = ‸\"1ms\"", "agent = ‸\"ps\""] {
        refused(&format!("[[job]]\n{key}\n"));
    }
    refused("[switch]\npreemption = ‸\"always\"\n[[job]]\n");
    assert_eq!(
        refused("protocol = \"esa\"\n[switch]\nidle_timeout = ‸\"1ms\"\n[[job]]\n"),
        "`idle_timeout` means nothing to \"esa\", the protocol of this file; leave it out: there, each \
         lost collision lowers an aggregator's priority instead"
    );
}

#[test]
fn segments_and_partitions() {
    let p4inc = |rest: &str| format!("protocol = \"p4inc\"\n[topology]\nworkers = 4\n{rest}");
    assert_eq!(
        refused("[[job]]\nsegment = ‸8\n"),
        "`segment` means nothing to \"atp\", the protocol of this file; write `protocol = \"p4inc\"` at \
         the top of the file, or leave `segment` out"
    );
    refused("protocol = \"switchml\"\n[[job]]\naggregation = ‸\"network\"\n");
    assert_eq!(
        refused(&p4inc("[switch]\npartitions = ‸4\n[[job]]\n")),
        "`partitions` means nothing to \"p4inc\", the protocol of this file; write `protocol = \
         \"switchml\"` at the top of the file, or leave `partitions` out"
    );
    assert_eq!(
        refused(&p4inc("[switch]\nidle_timeout = ‸\"1ms\"\n[[job]]\n")),
        "`idle_timeout` means nothing to \"p4inc\", the protocol of this file; leave it out: there, no \
         job takes another's aggregators"
    );
    assert_eq!(
        refused(&p4inc("[switch]\npool = 64\n[[job]]\nsegment = ‸65\n")),
        "`segment` is 65, out of range; choose a value from 1 to 64"
    );
    assert_eq!(
        refused(&p4inc("[[job]]\nsegment = 100\nslots = ‸128\n")),
        "a job with 128 slots has only 100 aggregators in its segment; choose at most 64 slots, a \
         larger `segment` or a larger pool"
    );
    refused(&p4inc("[switch]\npool = 100\n[[job]]\n[[job]]\nslots = ‸64\n"));
    assert_eq!(
        refused("[protocol]\nkind = \"switchml\"\nslots = ‸512\n[[job]]\n"),
        "a job with 512 slots has only 256 pairs of aggregators in its partition; choose at most 256 \
         slots, fewer partitions or a larger pool"
    );
    assert_eq!(
        refused("protocol = \"switchml\"\n[switch]\npool = 30\npartitions = ‸16\n[[job]]\n"),
        "16 partitions of 30 aggregators have no room for two versions of a slot; choose fewer \
         partitions or a larger pool"
    );
    refused("protocol = \"switchml\"\n[switch]\npool = ‸15\n[[job]]\n");
    assert_eq!(
        refused(&p4inc("[[job]]\naggregation = ‸\"sever\"\n")),
        "`aggregation` cannot be \"sever\"; did you mean \"server\"?"
    );
}

#[test]
fn jobs_that_need_or_must_not_have_a_parameter_server() {
    let racks = "[topology]\nracks = 2\nps_hosts = 0\n";
    assert_eq!(
        refused(&format!("protocol = \"p4inc\"\n{racks}‸[[job]]\n")),
        "the job has no parameter server; add `ps = \"…\"` with a host's name, or give a host `role = \
         \"ps\"`"
    );
    refused(&format!(
        "protocol = \"p4inc\"\n{racks}‸[[job]]\nworkers = [\"w1\"]\naggregation = \"server\"\n"
    ));
    refused("[topology]\nps_hosts = ‸0\n[[job]]\n");
    assert_eq!(
        refused(&format!("protocol = \"switchml\"\n{racks}[[job]]\nworkers = ‸[\"w1\", \"w3\"]\n")),
        "the job's workers are attached to several switches, and with \"switchml\" one sums up alone; choose \
         workers at one switch, or use \"p4inc\""
    );
    assert_eq!(
        refused(
            "protocol = \"switchml\"\n[topology]\nworkers = 2\n[[job]]\nworkers = [\"w1\"]\nps = ‸\"w2\"\n"
        ),
        "a job of \"switchml\" has no parameter server; leave `ps` out, or use another protocol"
    );
}

#[test]
fn too_many_fragments_for_a_p4inc_job() {
    let job = "[[job]]\nworkload = ‸{ kind = \"random\", elements = 4294967296, tensors = 9 }\n";
    refused(&format!("protocol = \"p4inc\"\n{job}"));
    assert!(parse(&job.replace('‸', ""), "f.toml").is_ok(), "ATP has eight times as many");
}

#[test]
fn esa() {
    let file = |job: &str| format!("protocol = \"esa\"\n[[job]]\nworkers = 2\n{job}\n");
    for value in ["‸0", "‸1048577", "‸\"3\""] {
        refused(&file(&format!("layers = {value}")));
    }
    for key in ["communication", "computation", "remaining"] {
        refused(&file(&format!("{key} = ‸\"0s\"")));
        refused(&file(&format!("{key} = ‸5")));
        refused(&file(&format!("{key} = ‸\"999999min\"")));
    }
    assert_eq!(
        refused(&file("agent = ‸\"w2\"")),
        "host `w2` is both a worker and the reminder agent of the job; choose another host for one of \
         them"
    );
    assert_eq!(refused(&file("agent = ‸\"pss\"")), "there is no host `pss`; did you mean `ps`?");
    assert_eq!(
        refused("protocol = \"esa\"\n[switch]\npreemption = ‸\"allways\"\n[[job]]\n"),
        "`preemption` cannot be \"allways\"; did you mean \"always\"?"
    );
}

#[test]
fn workers() {
    assert_eq!(
        refused("[[job]]\nworkers = ‸1025\n"),
        "`workers` is 1025, out of range; choose a value from 1 to 1024"
    );
    refused("[[job]]\nworkers = ‸0\n");
    refused("[[job]]\nworkers = ‸[]\n");
    assert_eq!(
        refused("[[job]]\nworkers = [\"w1\", \"w2\", ‸\"w1\"]\n[topology]\nworkers = 2\n"),
        "two workers of one job are on host `w1`; give each worker its own host"
    );
    assert_eq!(
        refused("[[job]]\nworkers = [\"w1\", ‸\"w5\"]\n[topology]\nworkers = 2\n"),
        "there is no host `w5`; did you mean `w1`?"
    );
    assert_eq!(
        refused("[[job]]\nworkers = [\"w1\", ‸\"s1\"]\n[topology]\nworkers = 2\n"),
        "`s1` is a switch; name a host"
    );
    assert_eq!(
        refused("[topology]\nworkers = 2\n[[job]]\nworkers = ‸4\n"),
        "the job wants 4 workers but the topology has 2 hosts for them; add hosts to the topology or \
         take fewer workers"
    );
    let listed = |hosts: &mut dyn Iterator<Item = usize>| -> String {
        hosts.map(|host| format!("\"w{host}\", ")).collect()
    };
    assert_eq!(
        refused(&format!(
            "[topology]\nworkers = 40\n[[job]]\nworkers = ‸[{}]\n",
            listed(&mut (0..1025).map(|host| host % 40 + 1))
        )),
        "the job has 1025 workers; a job can have at most 1024: a packet names 32 racks of 32 workers"
    );
}

#[test]
fn racks_of_workers() {
    const HINT: &str = "list the workers of a switch one after another, or spread them over other \
                        switches";
    let racks = |racks: u32, hosts: u32, job: &str| {
        format!("[topology]\nracks = {racks}\nhosts_per_rack = {hosts}\n[[job]]\n{job}")
    };
    assert_eq!(
        refused("[topology]\nworkers = 40\n[[job]]\nworkers = ‸33\n"),
        format!("33 of the workers are at switch s1; a rack has at most 32; {HINT}")
    );
    assert_eq!(
        refused(&("protocol = \"p4inc\"\n".to_owned() + &racks(2, 32, "workers = ‸64\n"))),
        format!("32 of the workers are at switch rack1; a rack has at most 31; {HINT}")
    );
    assert_eq!(
        refused(&racks(34, 1, "workers = ‸34\n")),
        format!("the workers are at 34 switches; a job has at most 32 racks; {HINT}")
    );
    let turns = (0..40).map(|at| format!("\"w{}\", ", at % 2 * 20 + at / 2 + 1));
    assert_eq!(
        refused(&racks(2, 20, &format!("workers = ‸[{}]\n", turns.collect::<String>()))),
        format!("the workers at switch rack1 are not listed one after another; {HINT}")
    );
    refused(&racks(2, 2, "levels = ‸3\n"));
}

/// Workers at the parameter server's switch have a position each as long as there are enough.
#[test]
fn positions_of_workers() {
    use tributary_protocol::{Assignment, Racks};
    for (racks, hosts, more, widths) in [
        (2, 2, "", vec![1; 4]),
        (2, 2, "levels = 2\n", vec![1, 1, 2]),
        (3, 16, "", [vec![1; 16], vec![16; 2]].concat()),
        (3, 31, "", [vec![1; 30], vec![31; 2]].concat()),
        (4, 31, "", vec![31; 4]),
    ] {
        let workers = widths.iter().map(|&width| u32::from(width)).sum::<u32>();
        let topology = format!("racks = {racks}\nhosts_per_rack = {hosts}\nps_rack = 1");
        let job = if workers == racks * hosts { String::new() } else { named(&[30, 31, 31]) };
        let file = format!("[topology]\n{topology}\n[[job]]\n{more}{job}");
        let scenario = tributary_model::jobfile::parse(&file, "test").unwrap();
        let config = scenario.network.job_config(&scenario.jobs[0], Assignment::NONE);
        assert_eq!(config.racks, Racks::new(&widths).unwrap(), "{file}");
    }
}

/// `workers` that names the first hosts of racks of 31.
fn named(counts: &[usize]) -> String {
    let hosts = counts.iter().enumerate().flat_map(|(rack, &count)| {
        (0..count).map(move |host| format!("\"w{}\", ", 31 * rack + host + 1))
    });
    format!("workers = [{}]\n", hosts.collect::<String>())
}

#[test]
fn parameter_servers() {
    assert_eq!(
        refused("[[job]]\nworkers = 2\nps = ‸\"pss\"\n"),
        "there is no host `pss`; did you mean `ps`?"
    );
    assert_eq!(
        refused("protocol = \"esa\"\n[[job]]\nworkers = 2\nps = ‸\"w2\"\n"),
        "host `w2` is both a worker and the parameter server of the job; choose another host for one \
         of them"
    );
    refused(
        "[[topology.switch]]\nname = \"s1\"\n[[topology.host]]\nname = \"w1\"\n\
         [[topology.link]]\nbetween = [\"w1\", \"s1\"]\n‸[[job]]\n",
    );
}

#[test]
fn threads() {
    for value in ["‸0", "‸17", "‸\"2\""] {
        refused(&format!("[[job]]\nthreads = {value}\n"));
    }
    let many = "[[job]]\nthreads = 16\n".repeat(15);
    assert_eq!(
        refused(&format!("{many}[[job]]\nthreads = ‸16\n")),
        "the jobs have more than 255 threads per worker together; take fewer threads or jobs"
    );
    refused(&format!("{many}{}‸[[job]]\n", "[[job]]\n".repeat(15)));
    let units = "protocol = \"p4inc\"\n[topology]\nunits = 2\n";
    assert_eq!(
        refused(&format!("{units}[[job]]\nthreads = ‸2\n")),
        "the control loop around a cross-connect moves only jobs with one thread per worker; leave \
         `threads` out"
    );
    let job = |threads: &str| {
        let file = "protocol = \"p4inc\"\n[[job]]\nworkers = 2\n";
        format!(
            "{file}{threads}workload = ‸{{ kind = \"random\", elements = 4294967296, tensors = 9 }}\n"
        )
    };
    refused(&job(""));
    assert!(
        parse(&job("threads = 2\n").replace('‸', ""), "f.toml").is_ok(),
        "half for each thread"
    );
}

#[test]
fn jobs_and_stragglers() {
    assert_eq!(refused("‸seed = 1\n"), "there is no job; add a [[job]]");
    assert_eq!(refused("‸"), "there is no job; add a [[job]]");
    assert_eq!(
        refused("[[job]]\nname = \"a\"\n[[job]]\nname = ‸\"a\"\n"),
        "jobs 1 and 2 are both named `a`; give each job its own name"
    );
    assert_eq!(
        refused("[[job]]\n[[job]]\nid = ‸1\n"),
        "jobs 1 and 2 both have the ID 1; give each job its own `id`; without one, it is its place \
         in the file"
    );
    refused("[[job]]\nid = ‸0\n");
    refused("[[job]]\nid = ‸65536\n");
    refused("[[job]]\njitter = ‸\"2min\"\n");
    refused("[[job]]\njitter = ‸300\n");
    refused("[[job]]\n[[job.straggler]]\nworker = ‸4\ndelay = \"1ms\"\n");
    refused("[[job]]\n[[job.straggler]]\nworker = ‸\"ps\"\ndelay = \"1ms\"\n");
    assert_eq!(
        refused("[[job]]\n‸[[job.straggler]]\nworker = 1\n"),
        "[[job.straggler]] has no `delay`; add `delay = \"5ms\"`"
    );
}

#[test]
fn workloads() {
    refused("[[job]]\nworkload = ‸{}\n");
    assert_eq!(
        refused("[[job]]\nworkload = { kind = ‸\"digit\" }\n"),
        "`kind` cannot be \"digit\"; did you mean \"digits\"?"
    );
    assert_eq!(
        refused("[[job]]\nworkload = { kind = \"random\", elements = 1, bytes = ‸\"4B\" }\n"),
        "`elements` and `bytes` both say how large a tensor is; keep one of them"
    );
    refused("[[job]]\nworkload = { kind = \"random\", bytes = ‸\"5B\" }\n");
    refused("[[job]]\nworkload = { kind = \"random\", bytes = ‸\"4 mb\" }\n");
    refused("[[job]]\nworkload = ‸{ kind = \"random\", elements = 4294967296, tensors = 1000 }\n");
    refused("[[job]]\nworkload = ‸{ kind = \"random\", elements = 4294967296, repeat = 1000 }\n");
    refused("[[job]]\nworkload = { kind = \"random\", repeat = ‸0 }\n");
    assert_eq!(
        refused("[[job]]\nworkload = { kind = \"random\", verify = ‸\"none\" }\n"),
        "`verify` cannot be \"none\"; choose one of `all`, `share`"
    );
    assert_eq!(
        refused(
            "[[job]]\nworkload = { kind = \"random\", tensors = 2, repeat = 3, warm_up = ‸6 }\n"
        ),
        "6 sums are for warming up, and there are 2 × 3; sum more often, so that some are left to \
         measure"
    );
    assert_eq!(
        refused(
            "[[job]]\nworkers = 2\nworkload = { kind = \"files\", output_dir = \"o\", inputs = ‸[\"a.npy\"] }\n"
        ),
        "there are 1 input files for 2 workers; name one file for each worker"
    );
    refused(
        "[[job]]\nworkers = 1\nworkload = { kind = \"files\", output_dir = \"o\", inputs = [‸\"a.pt\"] }\n",
    );
    refused("[[job]]\nworkers = 1\nworkload = ‸{ kind = \"files\", inputs = [\"a.npy\"] }\n");
    refused("[[job]]\nworkload = { kind = \"digits\", batch = ‸3 }\n");
    refused("[[job]]\nworkload = { kind = \"digits\", learning_rate = ‸0 }\n");
}

const EXPLICIT: &str = "
[[topology.switch]]
name = \"s1\"
[[topology.switch]]
name = \"s2\"
[[topology.host]]
name = \"a\"
[[topology.host]]
name = \"b\"
[[topology.host]]
name = \"server\"
role = \"ps\"
[[topology.link]]
between = [\"a\", \"s1\"]
[[topology.link]]
between = [\"b\", \"s2\"]
[[topology.link]]
between = [\"server\", \"s2\"]
[[topology.link]]
between = [\"s1\", \"s2\"]
[[job]]
";

/// [`EXPLICIT`] with one passage replaced.
fn explicit(from: &str, to: &str) -> String {
    assert_eq!(EXPLICIT.matches(from).count(), 1, "{from}");
    EXPLICIT.replace(from, to)
}

#[test]
fn explicit_topologies() {
    assert!(parse(EXPLICIT, "f.toml").is_ok());
    assert_eq!(
        refused(&explicit("\"s1\", \"s2\"", "\"s1\", ‸\"s3\"")),
        "there is no host or switch `s3`; did you mean `s1`?"
    );
    assert_eq!(
        refused(&explicit("name = \"b\"", "name = ‸\"a\"")),
        "there is another host or switch named `a`; give each its own name"
    );
    assert_eq!(
        refused(&explicit("[\"s1\", \"s2\"]", "‸[\"s1\", \"s1\"]")),
        "the link begins and ends at the same place; name two different ends"
    );
    assert_eq!(
        refused(&explicit("[\"s1\", \"s2\"]", "‸[\"s1\"]")),
        "`between` names 1 ends; name two: [\"w1\", \"s1\"]"
    );
    assert_eq!(
        refused(&explicit("[\"s1\", \"s2\"]", "‸[\"a\", \"b\"]")),
        "this link connects two hosts; connect each host to a switch instead"
    );
    assert_eq!(
        refused(&explicit("[\"s1\", \"s2\"]", "‸[\"a\", \"s2\"]")),
        "host `a` has two links; a host has one interface: remove one of its links"
    );
    assert_eq!(
        refused(&explicit("[\"s1\", \"s2\"]", "‸[\"s1\", \"a\"]")),
        "there is another link between `s1` and `a`; keep one of them"
    );
    refused(&explicit("name = \"a\"", "name = \"a\"\nmac = ‸\"01:00:00:00:00:00\""));
    refused(&explicit("name = \"a\"", "name = \"a\"\nip = ‸\"10.0.0\""));
    refused(&explicit("name = \"a\"", "name = \"a\"\nip = ‸\"239.1.1.1\""));
    assert_eq!(
        refused(&explicit("name = \"server\"", "name = ‸\"server\"\nip = \"10.0.1.1\"")),
        "hosts `a` and `server` both have the IP address 10.0.1.1; give each host its own address"
    );
}

#[test]
fn disconnected_topologies() {
    assert_eq!(
        refused(
            "[[topology.switch]]\nname = \"s1\"\n[[topology.switch]]\nname = ‸\"s2\"\n\
             [[topology.host]]\nname = \"a\"\n[[topology.link]]\nbetween = [\"a\", \"s1\"]\n[[job]]\n"
        ),
        "switch `s2` is not connected to switch `s1`; add a link: [[topology.link]] between = [\"s2\", \
         \"s1\"]"
    );
    assert_eq!(
        refused("[[topology.switch]]\nname = \"s1\"\n[[topology.host]]\nname = ‸\"a\"\n[[job]]\n"),
        "host `a` is not connected to switch `s1`; add a link: [[topology.link]] between = [\"a\", \
         \"s1\"]"
    );
}

#[test]
fn mtu() {
    assert_eq!(
        refused("[topology]\nmtu = ‸300\n[[job]]\n"),
        "the MTU of 300 bytes is too small for packets of 312 bytes between `w1` and `s1`; set `mtu = \
         9000` or lower values_per_packet"
    );
    refused(
        &explicit("[\"b\", \"s2\"]", "[\"b\", \"s2\"]\nmtu = ‸1500")
            .replace("[[job]]", "[protocol]\nvalues_per_packet = 2048\n[[job]]"),
    );
}

#[test]
fn rates_and_latencies_of_links() {
    assert_eq!(
        refused("[topology]\nrate = ‸\"0Gb/s\"\n[[job]]\n"),
        "`rate` is 0b/s, out of range; choose a value from 1kb/s to 10Tb/s"
    );
    assert_eq!(
        refused("[topology]\nrate = ‸\"10GB/s\"\n[[job]]\n"),
        "`rate` is `10GB/s`, not a rate; write a number and one of b/s, kb/s, Mb/s, Gb/s, Tb/s, for \
         example \"10Gb/s\""
    );
    assert_eq!(
        refused("[topology]\nrate = ‸10\n[[job]]\n"),
        "`rate` is an integer but must be a rate with its unit; write for example \"10Gb/s\""
    );
    for rate in
        ["\"-1Gb/s\"", "\"nan\"", "nan", "\"10.5Tb/s\"", "\"999b/s\"", "\"\"", "\"inf Gb/s\""]
    {
        refused(&format!("[topology]\nrate = ‸{rate}\n[[job]]\n"));
        refused(&explicit("[\"b\", \"s2\"]", &format!("[\"b\", \"s2\"]\nrate = ‸{rate}")));
    }
    assert_eq!(
        refused("[topology]\nlatency = ‸\"11s\"\n[[job]]\n"),
        "`latency` is 11s, out of range; choose a value from 0ns to 10s"
    );
    refused("[topology]\nlatency = ‸\"-1us\"\n[[job]]\n");
    refused(&explicit("[\"b\", \"s2\"]", "[\"b\", \"s2\"]\nlatency = ‸1"));
    assert_eq!(
        refused("[topology]\n‸rates = \"1Gb/s\"\n[[job]]\n"),
        "unknown key `rates` in [topology]; did you mean `rate`?"
    );
    assert_eq!(
        refused(&explicit("[\"b\", \"s2\"]", "[\"b\", \"s2\"]\n‸latancy = \"1us\"")),
        "unknown key `latancy` in [[topology.link]]; did you mean `latency`?"
    );
}

#[test]
fn links_of_short_forms() {
    let star = |link: &str| {
        format!(
            "[topology]\nworkers = 2\n[[topology.link]]\nbetween = [\"w1\", \"s1\"]\n{link}[[job]]\n"
        )
    };
    assert_eq!(
        refused(&star("[[topology.link]]\nbetween = ‸[\"w1\", \"w2\"]\n")),
        "there is no link between `w1` and `w2`; name the two ends of one link"
    );
    assert_eq!(
        refused(&star("[[topology.link]]\nbetween = ‸[\"s1\", \"w1\"]\n")),
        "the link between `s1` and `w1` is given twice; keep one of the two [[topology.link]]"
    );
    assert_eq!(
        refused(&star("[[topology.link]]\nbetween = [‸\"w3\", \"s1\"]\n")),
        "there is no host or switch `w3`; did you mean `w1`?"
    );
    assert_eq!(
        refused(&star("mtu = ‸100\n")),
        "the MTU of 100 bytes is too small for packets of 312 bytes between `w1` and `s1`; set `mtu = \
         9000` or lower values_per_packet"
    );
    refused(&star("loss = ‸0.1\n").replace("loss = ‸", "‸loss = "));
}

#[test]
fn faults_of_links() {
    refused("[[faults.link]]\nbetween = [\"w1\", ‸\"s9\"]\n[[job]]\n");
    assert_eq!(
        refused("[[faults.link]]\nbetween = ‸[\"w1\", \"w2\"]\n[[job]]\n"),
        "there is no link between `w1` and `w2`; name the two ends of one link"
    );
    refused(
        "[[faults.link]]\nbetween = [\"w1\", \"s1\"]\n[[faults.link]]\nbetween = ‸[\"s1\", \"w1\"]\n\
         [[job]]\n",
    );
}

#[test]
fn a_missing_file() {
    let error = tributary_model::jobfile::load("/nonexistent/job.toml").expect_err("no such file");
    let message = error.to_string();
    assert!(message.starts_with("/nonexistent/job.toml: cannot read the job file: "), "{message}");
    assert_eq!(error.position(), None);
}

#[test]
fn missing_tensor_files() {
    let directory = std::env::temp_dir().join(format!("tributary-jobfile-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("job.toml");
    let text = "[[job]]\nworkers = 1\n\
                workload = { kind = \"files\", inputs = [\"a.npy\"], output_dir = \"o\" }\n";
    std::fs::write(&path, text).unwrap();
    let error = tributary_model::jobfile::load(&path).expect_err("the tensor file is not there");
    assert!(error.to_string().contains(":3:40: there is no file `a.npy`; "), "{error}");
    std::fs::write(directory.join("a.npy"), "").unwrap();
    assert!(tributary_model::jobfile::load(&path).is_ok());
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn underflow_keys_are_checked() {
    refused("[[job]]\nmax_underflow = ‸1.5\n");
    let message = refused("[protocol]\non_underflow = ‸\"refuse\"\n[[job]]\n");
    assert!(message.contains("choose one of `warn`, `fail`"), "{message}");
}

#[test]
fn later_results_are_counted_by_the_papers_rules_only() {
    assert_eq!(
        refused("[protocol]\nlater_results = ‸\"leave\"\n[[job]]\n"),
        "`later_results` means nothing with the recovery \"rack\", which does not count later results; \
         write `recovery = \"papers\"` into [protocol], or leave `later_results` out"
    );
    refused("[protocol]\nrecovery = \"rack\"\nlater_results = ‸\"halve\"\n[[job]]\n");
    assert_eq!(
        refused("[protocol]\nrecovery = \"papers\"\nlater_results = ‸\"ignore\"\n[[job]]\n"),
        "`later_results` cannot be \"ignore\"; choose one of `halve`, `leave`"
    );
    refused("[protocol]\nrecovery = \"papers\"\nlater_results = ‸true\n[[job]]\n");
}

#[test]
fn timeouts_contradict_each_other() {
    let protocol = |keys: &str| format!("[protocol]\n{keys}\n[[job]]\n");
    assert_eq!(
        refused(&protocol("min_timeout = ‸\"0ms\"")),
        "`min_timeout` is 0ns, out of range; choose a value from 1µs to 60s"
    );
    refused(&protocol("max_timeout = ‸\"61s\""));
    refused(&protocol("initial_timeout = ‸1"));
    assert_eq!(
        refused(&protocol(
            "min_timeout = ‸\"5ms\"\ninitial_timeout = \"3ms\"\nmax_timeout = \"4ms\""
        )),
        "`min_timeout` is 5ms, longer than `max_timeout`, which is 4ms; choose a shorter `min_timeout` \
         or a longer `max_timeout`"
    );
    assert_eq!(
        refused(&protocol("initial_timeout = ‸\"200ms\"")),
        "`initial_timeout` is 200ms, longer than `max_timeout`, which is 100ms; choose a shorter \
         `initial_timeout` or a longer `max_timeout`"
    );
    // The value of `initial_timeout` is its default here.
    assert_eq!(
        refused(&protocol("max_timeout = ‸\"10ms\"")),
        "`initial_timeout` is 20ms, longer than `max_timeout`, which is 10ms; choose a shorter \
         `initial_timeout` or a longer `max_timeout`"
    );
}

#[test]
fn jobs_that_go_on() {
    refused("[[job]]\non_death = ‸\"restart\"\n");
    refused("[[job]]\nworkers = 3\non_death = \"continue\"\nmin_workers = ‸4\n");
    refused("[[job]]\nworkers = 3\non_death = \"continue\"\nmin_workers = ‸0\n");
    assert_eq!(
        refused("[[job]]\nworkers = 3\nmin_workers = ‸2\n"),
        "the job ends when a worker dies, so `min_workers` has no meaning; add on_death = \"continue\", or \
         leave it out"
    );
    let goes_on = "[[job]]\non_death = ‸\"continue\"\n";
    for more in [
        "threads = 2\n",
        "workload = { kind = \"digits\" }\n",
        "workers = 1\nworkload = { kind = \"files\", inputs = [\"a.npy\"], output_dir = \"o\" }\n",
        "workload = { kind = \"random\", verify = \"share\" }\n",
    ] {
        let line = refused(&format!("{goes_on}{more}"));
        assert!(line.ends_with("`on_death` out") || line.contains("`on_death` out, or"), "{line}");
    }
    let units = "protocol = \"p4inc\"\n[topology]\nunits = 3\n[orchestrator]\npartial_inc = true\n";
    let wide = "workers = [\"w1\", \"w3\"]\nps = \"ps3\"\n";
    assert_eq!(
        refused(&format!("{units}{goes_on}{wide}")),
        "with `partial_inc`, a job over several units cannot go on without one of its workers; set on_death = \
         \"wait\", or leave it out"
    );
}
