//! As many workers as a job may have, and many jobs, at once.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tributary_access::{Door, Listen, Remote, Server};
use tributary_api::jobs::v1;
use tributary_api::jobs::v1::take_response::Notice;
use tributary_controller::client::{SwitchConfig, Target};
use tributary_controller::jobs::Controller;
use tributary_controller::server::LIMITS;
use tributary_controller::service::Jobs;
use tributary_model::jobfile::parse;
use tributary_model::{Deployment, plan::Placement};
use tributary_switch::server::Listen as At;

use crate::embedded::leases::{KEY, LATE, Site, leased, plain};
use crate::embedded::taking::Taking;
use crate::embedded::{running, runtime_with, serve};
use crate::support::entries_of;

const RACKS: usize = 32;
const WORKERS: u32 = 32 * RACKS as u32;

/// Longest time for all workers to come, on a busy machine.
const TOGETHER: Duration = LATE;

/// Jobs that come at once.
const JOBS: usize = 100;

/// Jobs of a switch: nearly as many as it can count.
const SERVED: u32 = 250;

/// What a worker heard until its run began.
struct Heard {
    taking: Taking,
    run: v1::Run,
    /// How often it was told who is missing.
    times: u64,
}

async fn come(controller: Remote, worker: u32) -> Heard {
    let mut taking = Taking::worker(&controller, "wide", worker, 0).await.unwrap();
    let mut times = 0;
    loop {
        match taking.notice().await.unwrap() {
            Notice::Waiting(_) => times += 1,
            Notice::Run(run) => return Heard { taking, run, times },
            other => panic!("{other:?}"),
        }
    }
}

/// They begin one run, learn of a death, and what they are told meanwhile does not grow with the square of their number.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_workers_come_at_once() {
    let text = format!(
        "[topology]\nracks = {RACKS}\nhosts_per_rack = 32\n[switch]\npool = 64\n[[job]]\nname = \"wide\"\n\
         workers = {WORKERS}\n"
    );
    let scenario = parse(&text, "test").unwrap_or_else(|error| panic!("{error}"));
    let kit = running("atp");
    let topology = &scenario.network.topology;
    let directory = tempfile::tempdir().unwrap();
    let (mut configs, mut switches) = (Vec::new(), Vec::new());
    for switch in &topology.switches {
        let path = directory.path().join(format!("{}.sock", switch.name));
        let (runtime, cables) = runtime_with(40);
        switches.push((serve(runtime, At::Unix(path.clone())), cables));
        let target = Target::Address(format!("unix:{}", path.display()));
        configs.push(SwitchConfig::new(&switch.name, target));
    }
    let controller = Controller::connect(topology, configs, &kit.pipeline).await.unwrap();
    let epoch = controller.issue().await.unwrap();
    let placement = Placement { epoch, ..Placement::unassigned(&scenario.jobs[0]) };
    controller.admit(&placement).await.unwrap();
    let jobs = Jobs::new(controller, Deployment::new(scenario.clone()).unwrap());
    let listen = Listen::Unix(directory.path().join("jobs.sock"));
    let server = Server::start(jobs.service(), Door::unlocked(listen), LIMITS).await.unwrap();
    let controller = Remote::new(&server.address().to_string(), None).unwrap().unwrap();

    let begin = Instant::now();
    let mut coming = JoinSet::new();
    (0..WORKERS).for_each(|worker| drop(coming.spawn(come(controller.clone(), worker))));
    let mut there = coming.join_all().await;
    let took = begin.elapsed();
    let runs: BTreeSet<Vec<u32>> = there.iter().map(|heard| heard.run.epochs.clone()).collect();
    assert_eq!(runs, BTreeSet::from([vec![epoch.get()]]));
    assert!(there.iter().all(|heard| heard.run.workers.len() == WORKERS as usize));
    let times: u64 = there.iter().map(|heard| heard.times).sum();
    println!("{WORKERS} workers after {took:.2?}; told {times} times who is missing");
    assert!(took < TOGETHER, "{took:?}");
    let most = u64::from(WORKERS) * (3 + took.as_millis() as u64 / 100);
    assert!(times <= most, "told {times} times in {took:?}");

    let begin = Instant::now();
    drop(there.pop());
    let mut heard = JoinSet::new();
    for Heard { mut taking, .. } in there {
        heard.spawn(async move { taking.lost().await });
    }
    let lost: BTreeSet<u32> = heard.join_all().await.into_iter().collect();
    println!("all others knew of a death after {:.2?}", begin.elapsed());
    assert_eq!(lost.len(), 1);
}

/// Each loses a worker as soon as it runs, and is gone soon after.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_jobs_are_admitted_while_workers_die() {
    let site = Site::of("atp", "");
    let mut life = site.live().await;
    // A channel that has just been opened begins calls before it hears how many the server takes; some would be refused.
    life.client.list(v1::ListRequest {}).await.unwrap();
    let begin = Instant::now();
    let mut coming = JoinSet::new();
    for _ in 0..JOBS {
        let (mut client, address) = (life.client.clone(), life.address.clone());
        coming.spawn(async move {
            let request =
                v1::AdmitRequest { parameter_server: "ps".into(), ..leased(0, &["w1", "w2"]) };
            let job = client.admit(request).await.unwrap().into_inner().job_id;
            let take = async |worker| Taking::of_admitted(&address, job, KEY, worker, 0).await;
            let (mut one, mut two) = (take(0).await.unwrap(), take(1).await.unwrap());
            assert_eq!(one.epoch().await.unwrap(), two.epoch().await.unwrap());
            drop(two);
            assert_eq!(one.lost().await, 1);
            job
        });
    }
    let jobs: BTreeSet<u32> = coming.join_all().await.into_iter().collect();
    let took = begin.elapsed();
    println!("{JOBS} jobs were admitted, ran and lost a worker in {took:.2?}");
    assert!(jobs.len() == JOBS && took < TOGETHER, "{took:?}");
    life.emptied().await;
    let session = &life.jobs.controller().switches()[0];
    assert!(entries_of(session, &site.kit.pipeline, ".memberships").await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_controller_goes_on_with_many_jobs() {
    let site = Site::of("atp", "");
    let mut life = site.live().await;
    let begin = Instant::now();
    for job in 2..SERVED + 2 {
        let request =
            v1::AdmitRequest { parameter_server: "ps".into(), ..plain(job, &["w1", "w2"]) };
        life.admit(request).await;
    }
    println!("{SERVED} jobs were admitted in {:.2?}", begin.elapsed());
    drop(life);
    let begin = Instant::now();
    let mut life = site.live().await;
    let took = begin.elapsed();
    println!("another controller served them after {took:.2?}");
    assert_eq!(life.jobs().await.len(), SERVED as usize);
    let session = &life.jobs.controller().switches()[0];
    assert_eq!(session.found().updates, 0);
    assert!(!entries_of(session, &site.kit.pipeline, ".memberships").await.is_empty());
}
