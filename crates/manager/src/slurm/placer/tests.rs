use proptest::prelude::*;
use tributary_cluster::placement::by_name;

use super::*;

const NOW_S: u64 = 1_000_000;

const SETTINGS: Settings = Settings { period_ms: 5000, ageing: 1.0, patience_s: 60 };

/// Two racks of two nodes with two GPUs each.
fn site() -> Site {
    let link = |host: &str, switch: &str| {
        format!(
            "[[topology.host]]\nname = \"{host}\"\n[[topology.link]]\nbetween = [\"{host}\", \"{switch}\"]\n"
        )
    };
    let hosts = [("n1", "s1"), ("n2", "s1"), ("n3", "s2"), ("n4", "s2")];
    let network = hosts.map(|(host, switch)| link(host, switch)).concat()
        + "[[topology.switch]]\nname = \"s1\"\n[[topology.switch]]\nname = \"s2\"\n\
           [[topology.link]]\nbetween = [\"s1\", \"s2\"]\n";
    let servers = hosts.map(|(host, _)| format!("[[server]]\nhost = \"{host}\"\ngpus = 2\n"));
    let site = format!("network = \"network.toml\"\n{}", servers.concat());
    Site::parse(&site, &network).unwrap_or_else(|error| panic!("{error}"))
}

fn held(id: u32, gpus: u32) -> QueuedJob {
    QueuedJob {
        id,
        phase: Phase::Pending,
        held: true,
        reason: "JobHeldUser".into(),
        comment: "tributary".into(),
        admin_comment: String::new(),
        partitions: vec!["main".into()],
        gpus,
        gpus_by_part: false,
        compound: false,
        depends: false,
        nodes: Vec::new(),
        submit_s: NOW_S - 100 + u64::from(id),
        eligible_s: 0,
        limit_s: Some(3600),
    }
}

fn released(id: u32, decision: &Decision) -> QueuedJob {
    let gpus = decision.on.iter().map(|(_, gpus)| gpus).sum();
    QueuedJob {
        held: false,
        reason: "Resources".into(),
        admin_comment: decision.to_string(),
        ..held(id, gpus)
    }
}

fn running(id: u32, decision: &Decision) -> QueuedJob {
    QueuedJob { phase: Phase::Running, nodes: decision.on.clone(), ..released(id, decision) }
}

fn decision(on: &[(&str, u32)]) -> Decision {
    let on: Vec<_> = on.iter().map(|(node, gpus)| ((*node).to_owned(), *gpus)).collect();
    let ps = (on.len() > 1).then(|| on[0].0.clone());
    Decision { on, ps, adding: None, at_s: Some(NOW_S - 10), run: None }
}

/// Four idle nodes.
fn listing(jobs: Vec<QueuedJob>) -> Listing {
    let node = |name: &str| Node {
        name: name.into(),
        address: name.into(),
        partitions: vec!["main".into()],
        usable: true,
        gpus: 2,
        used: 0,
    };
    Listing { jobs, nodes: ["n1", "n2", "n3", "n4"].map(node).to_vec() }
}

/// As [`listing`], with the GPUs of running jobs in use.
fn used(jobs: Vec<QueuedJob>) -> Listing {
    let mut listing = listing(jobs);
    for (name, gpus) in listing.jobs.iter().flat_map(|job| &job.nodes) {
        let node = listing.nodes.iter_mut().find(|node| node.name == *name).unwrap();
        node.used += gpus;
    }
    listing
}

fn steps(listing: &Listing) -> Vec<Step> {
    decide(&site(), by_name("netpack").unwrap().as_mut(), &SETTINGS, listing, NOW_S)
}

fn placed(steps: &[Step]) -> BTreeMap<u32, Decision> {
    let placed = steps.iter().filter_map(|step| match step {
        Step::Place(job, decision) => Some((*job, decision.clone())),
        _ => None,
    });
    placed.collect()
}

/// The reason for which a job alone is left.
fn left(job: QueuedJob) -> String {
    match &steps(&listing(vec![job]))[..] {
        [Step::Leave(_, why)] => why.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_held_job_gets_nodes() {
    let steps = steps(&listing(vec![held(1, 2), held(2, 3)]));
    let placed = placed(&steps);
    let one = &placed[&1];
    assert_eq!((one.on.len(), &one.ps, one.at_s), (1, &None, Some(NOW_S)));
    let two = &placed[&2];
    assert_eq!(two.on.iter().map(|(_, gpus)| gpus).sum::<u32>(), 3);
    assert!(two.ps.is_some(), "{two}");
    assert_eq!(steps.len(), 2);
}

#[test]
fn every_policy_places_jobs() {
    let names = tributary_cluster::placement::NAMES
        .iter()
        .chain(tributary_cluster::placement::ALL_REDUCE_NAMES);
    for name in names {
        let mut policy = by_name(name).unwrap();
        let listing = listing(vec![held(1, 5)]);
        let steps = decide(&site(), policy.as_mut(), &SETTINGS, &listing, NOW_S);
        let one = placed(&steps).remove(&1).unwrap_or_else(|| panic!("{name}: {steps:?}"));
        assert!(one.on.len() > 1 && one.ps.is_some(), "{name}: {one}");
    }
}

#[test]
fn other_jobs_are_left_alone() {
    let without = |change: fn(&mut QueuedJob)| {
        let mut job = held(1, 2);
        change(&mut job);
        steps(&listing(vec![job]))
    };
    assert_eq!(without(|job| job.comment = "nightly".into()), []);
    assert_eq!(without(|job| job.held = false), []);
    assert_eq!(without(|job| job.phase = Phase::Running), []);
    assert_eq!(without(|job| job.depends = true), []);
}

#[test]
fn jobs_that_cannot_be_placed_are_told_why() {
    assert!(
        left(QueuedJob { comment: "tributary model=x".into(), ..held(1, 2) }).contains("`model=x`")
    );
    assert!(left(QueuedJob { compound: true, ..held(1, 2) }).contains("arrays"));
    assert!(left(QueuedJob { gpus_by_part: true, ..held(1, 0) }).contains("--gpus=N"));
    assert!(left(held(1, 0)).contains("--gpus=N"));
    assert!(left(held(1, 9)).contains("9 GPUs; the site has 8"));
    let refused = QueuedJob {
        reason: "BadConstraints".into(),
        admin_comment: decision(&[("n1", 2), ("n2", 1)]).to_string(),
        ..held(1, 3)
    };
    assert!(left(refused).contains("cannot run it on n1 (2), n2 (1)"));
}

#[test]
fn gpus_of_all_jobs_count() {
    // Five of eight GPUs are left: one job runs, another is placed, and a third is not ours.
    let two = decision(&[("n1", 1)]);
    let mut listing = used(vec![running(1, &two), released(2, &decision(&[("n2", 1)]))]);
    listing.nodes[2].used = 1;
    listing.jobs.push(held(3, 5));
    let fits = placed(&steps(&listing));
    assert_eq!(fits[&3].on.iter().map(|(_, gpus)| gpus).sum::<u32>(), 5);
    listing.jobs[2].gpus = 6;
    assert!(placed(&steps(&listing)).is_empty());
    listing.jobs[2].gpus = 4;
    listing.nodes[3].usable = false;
    assert!(placed(&steps(&listing)).is_empty(), "two of the five are on a node that is down");
}

#[test]
fn a_job_on_a_node_that_is_down_still_holds_its_other_gpus() {
    let mut listing = used(vec![running(1, &decision(&[("n1", 2), ("n2", 2)])), held(2, 5)]);
    listing.nodes[0].usable = false;
    assert!(placed(&steps(&listing)).is_empty());
}

#[test]
fn jobs_use_nodes_of_their_partition() {
    let mut listing = listing(vec![held(1, 4), held(2, 4)]);
    listing.jobs[1].partitions = vec!["other".into()];
    for node in &mut listing.nodes[2..] {
        node.partitions = vec!["other".into()];
    }
    let placed = placed(&steps(&listing));
    let on = |job: u32| placed[&job].on.iter().map(|(node, _)| node.as_str()).collect::<Vec<_>>();
    assert_eq!((on(1), on(2)), (vec!["n1", "n2"], vec!["n3", "n4"]));
    // Partitions may share nodes.
    listing.nodes[1].partitions = vec!["main".into(), "other".into()];
    listing.jobs[1].gpus = 6;
    assert_eq!(self::placed(&steps(&listing)).len(), 1);
}

#[test]
fn nodes_are_taken_back_if_slurm_does_not_start_the_job() {
    let old = Decision { at_s: Some(NOW_S - 61), ..decision(&[("n1", 2), ("n2", 2)]) };
    let listing = listing(vec![released(1, &old), held(2, 8)]);
    let steps = steps(&listing);
    assert!(
        matches!(&steps[0], Step::TakeBack(1, why) if why.contains("(Resources)")),
        "{steps:?}"
    );
    assert!(placed(&steps).contains_key(&2), "others may have them");
    // A requeued job may start at its time only, and one that Slurm placed itself stays its own.
    let later = QueuedJob { eligible_s: NOW_S + 100, ..released(1, &old) };
    let own = released(1, &Decision { at_s: None, ..old });
    for job in [later, own] {
        assert_eq!(self::steps(&self::listing(vec![job])), []);
    }
}

#[test]
fn jobs_with_the_same_number_run_one_after_the_other() {
    let number = |steps: &[Step]| placed(steps).into_keys().collect::<Vec<_>>();
    assert_eq!(number(&steps(&listing(vec![held(1, 1), held(65_536, 1)]))), [1]);
    let one = decision(&[("n1", 1)]);
    assert_eq!(number(&steps(&used(vec![running(65_536, &one), held(1, 1)]))), [0; 0]);
    let over = QueuedJob { phase: Phase::Over, ..running(65_536, &one) };
    assert_eq!(number(&steps(&listing(vec![over, held(1, 1)]))), [1]);
}

#[test]
fn a_job_is_admitted_with_the_nodes_that_it_has() {
    let two =
        Decision { adding: Some(Vec::new()), run: Some(9), ..decision(&[("n1", 2), ("n3", 1)]) };
    let admission = admission(&running(7, &two)).unwrap();
    assert_eq!(admission.workers, ["n1", "n3"]);
    assert_eq!((admission.ps.as_deref(), admission.adding), (Some("n1"), Some(Vec::new())));
    assert_eq!(admission.run, Some(9));
    // Slurm placed it: elsewhere, or without us.
    let moved = QueuedJob { nodes: vec![("n2".into(), 2), ("n4".into(), 2)], ..running(7, &two) };
    let again = self::admission(&moved).unwrap();
    assert_eq!((again.ps, again.adding, again.run), (None, None, Some(9)), "not as it was placed");
    let own = QueuedJob { admin_comment: String::new(), ..moved };
    let of_slurm = self::admission(&own).unwrap();
    assert_eq!((of_slurm.ps, of_slurm.adding), (None, None), "the controller chooses");
    assert_eq!(self::admission(&QueuedJob { comment: String::new(), ..own }), None, "not ours");
    assert_eq!(self::admission(&running(7, &decision(&[("n1", 2)]))), None, "it sends nothing");
}

fn served(numbers: &[u16]) -> BTreeMap<u16, Served> {
    let served = Served { workers: vec!["n1".into(), "n2".into()], ps: "n1".into(), epoch: 3 };
    numbers.iter().map(|&number| (number, served.clone())).collect()
}

#[test]
fn jobs_that_are_over_are_released() {
    let two = decision(&[("n1", 1), ("n2", 1)]);
    let over = QueuedJob { phase: Phase::Over, ..running(1, &two) };
    let completing = QueuedJob { phase: Phase::Completing, ..running(2, &two) };
    let held_again = QueuedJob { held: true, ..released(3, &two) };
    let starting = QueuedJob { phase: Phase::Starting, ..running(4, &two) };
    let jobs = [over, completing, held_again, released(5, &two), starting, running(6, &two)];
    let served = served(&[1, 2, 3, 4, 5, 6, 99]);
    let repairs = reconcile(&served, &jobs, false);
    assert_eq!(repairs, [1, 3, 99].map(Repair::Release));
    assert_eq!(reconcile(&served, &jobs, true), [1, 3].map(Repair::Release), "99 may be another's");
}

#[test]
fn a_number_is_kept_while_any_job_with_it_is_alive() {
    let two = decision(&[("n1", 1), ("n2", 1)]);
    let jobs = [QueuedJob { phase: Phase::Over, ..running(1, &two) }, running(65_536, &two)];
    assert_eq!(reconcile(&served(&[1]), &jobs, false), []);
}

#[test]
fn a_job_that_the_controller_forgot_is_admitted_again() {
    let two = Decision { run: Some(3), ..decision(&[("n1", 1), ("n2", 1)]) };
    let never = Decision { run: None, ..two.clone() };
    let jobs = [running(1, &two), running(2, &never), running(3, &decision(&[("n3", 1)]))];
    let repairs = reconcile(&served(&[]), &jobs, false);
    assert!(
        matches!(&repairs[..], [Repair::Admit(Admission { job: 1, run: Some(3), .. })]),
        "{repairs:?}"
    );
}

/// Jobs in every phase, and what Slurm says of the nodes.
fn worlds() -> impl Strategy<Value = Listing> {
    let job = (0_u32..6, 0_usize..4, 1_u32..3, 0_usize..4, 1_u32..3, 1_u32..10);
    let node = (0_u32..3, 0_u32..3, prop::bool::weighted(0.8));
    let (jobs, nodes) = (prop::collection::vec(job, 0..8), prop::collection::vec(node, 4..5));
    (jobs, nodes).prop_map(|(jobs, nodes)| {
        let name = |at: usize| format!("n{}", at + 1);
        let jobs = (1..).zip(jobs).map(|(id, (kind, first, a, second, b, gpus))| {
            let mut on = vec![(name(first), a)];
            if second != first {
                on.push((name(second), b));
            }
            let ps = (on.len() > 1).then(|| on[0].0.clone());
            let at_s = Some(NOW_S - u64::from(gpus) * 10);
            let adding = (kind % 2 == 1).then(Vec::new);
            let decision = Decision { on, ps, adding, at_s, run: None };
            match kind {
                0 => running(id, &decision),
                1 => released(id, &decision),
                2 => QueuedJob { phase: Phase::Over, ..running(id, &decision) },
                _ => held(id, gpus),
            }
        });
        let mut listing = listing(jobs.collect());
        for (node, (gpus, used, usable)) in listing.nodes.iter_mut().zip(nodes) {
            (node.gpus, node.used, node.usable) = (gpus, used, usable);
        }
        listing
    })
}

proptest! {
    /// Whatever Slurm says, even if it contradicts itself: no GPU is given twice.
    #[test]
    fn only_free_gpus_of_usable_nodes_are_given(listing in worlds()) {
        let steps = steps(&listing);
        let taken_back = |id: u32| steps.iter().any(|step| matches!(step, Step::TakeBack(back, _) if *back == id));
        let mut free: BTreeMap<&str, u32> = listing
            .nodes
            .iter()
            .map(|node| (node.name.as_str(), node.gpus.saturating_sub(node.used)))
            .collect();
        for job in &listing.jobs {
            if job.phase == Phase::Pending && !job.held && !taken_back(job.id) {
                for (node, gpus) in decided(job).unwrap().on {
                    let free = free.get_mut(node.as_str()).unwrap();
                    *free = free.saturating_sub(gpus);
                }
            }
        }
        for (job, decision) in placed(&steps) {
            let job = listing.jobs.iter().find(|other| other.id == job).unwrap();
            prop_assert!(job.held);
            prop_assert_eq!(decision.on.iter().map(|(_, gpus)| gpus).sum::<u32>(), job.gpus);
            for (name, gpus) in &decision.on {
                let node = listing.nodes.iter().find(|node| node.name == *name).unwrap();
                prop_assert!(node.usable);
                let free = free.get_mut(name.as_str()).unwrap();
                prop_assert!(*free >= *gpus, "{} of {}", decision, name);
                *free -= gpus;
            }
        }
    }
}
