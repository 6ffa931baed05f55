//! A controller whose journal cannot be written: memory that a restart would give back to a job stays the job's.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tributary_access::{Door, Listen, Remote, Server};
use tributary_controller::jobs::Controller;
use tributary_controller::server::LIMITS;
use tributary_controller::service::{Admission, Jobs, Journal, Record, Refusal};
use tributary_model::jobfile::parse;
use tributary_model::{Aggregation, Deployment, plan::Placement};
use tributary_wire::JobId;

use crate::embedded::running;
use crate::embedded::taking::Taking;
use crate::support::{self, Kit, free_port};

#[derive(Clone, Debug, Default)]
struct Full(Arc<AtomicBool>);

impl Full {
    fn fail(&self, fails: bool) {
        self.0.store(fails, Ordering::Relaxed);
    }

    fn write(&self) -> Result<(), String> {
        if self.0.load(Ordering::Relaxed) { Err("the disk is full".into()) } else { Ok(()) }
    }
}

impl Journal for Full {
    fn keep(&self, _: &Record) -> Result<(), String> {
        self.write()
    }

    fn forget(&self, _: JobId) -> Result<(), String> {
        self.write()
    }

    fn lasts(&self) -> bool {
        true
    }
}

/// Workers are told what is wrong, and not to start a controller that runs.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_begins_when_the_journal_can_be_written_again() {
    let scenario = parse("[switch]\npool = 64\n[[job]]\nworkers = 2\n", "test").unwrap();
    let (kit, port) = (running("atp"), free_port());
    let _switch = kit.start(port);
    let configs = vec![support::config("s1", port)];
    let controller =
        Controller::connect(&scenario.network.topology, configs, &kit.pipeline()).await.unwrap();
    let job = &scenario.jobs[0];
    let epoch = controller.issue().await.unwrap();
    controller.admit(&Placement { epoch, ..Placement::unassigned(job) }).await.unwrap();
    let journal = Full::default();
    let deployment = Deployment::new(scenario.clone()).unwrap();
    let jobs = Jobs::resume(controller, deployment, &[], Arc::new(journal.clone()));
    let anywhere = Listen::Tcp(([127, 0, 0, 1], 0).into());
    let server = Server::start(jobs.service(), Door::unlocked(anywhere), LIMITS).await.unwrap();
    let address = Remote::new(&server.address().to_string(), None).unwrap().unwrap();
    let both = async || {
        let mut one = Taking::worker(&address, &job.name, 0, 0).await.unwrap();
        let mut other = Taking::worker(&address, &job.name, 1, 0).await.unwrap();
        [one.epoch().await, other.epoch().await]
    };
    journal.fail(true);
    for _ in 0..2 {
        for begun in both().await {
            let error = begun.unwrap_err();
            let said = "cannot record the change in the journal: the disk is full";
            assert_eq!((error.code(), error.message()), (tonic::Code::Unavailable, said));
        }
    }
    journal.fail(false);
    let [one, other] = both().await.map(Result::unwrap);
    assert_eq!(one, other);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_journal_does_not_have_is_given_to_no_other_job() {
    let text = "protocol = \"p4inc\"\n[topology]\nworkers = 4\nps_hosts = 1\n[switch]\npool = 64\n[[job]]\n\
                segment = 16\nwindow = 8\nslots = 8\n";
    let scenario = parse(text, "test").unwrap_or_else(|error| panic!("{error}"));
    let (kit, port) = (running("p4inc"), free_port());
    let _switch = kit.start(port);
    let configs = vec![support::config("s1", port)];
    let controller =
        Controller::connect(&scenario.network.topology, configs, &kit.pipeline()).await.unwrap();
    let (journal, known) = (Full::default(), Placement::unassigned(&scenario.jobs[0]));
    let deployment = Deployment::unassigned(scenario.clone());
    let jobs = Jobs::resume(controller, deployment, &[], Arc::new(journal.clone()));
    let free = || jobs.room()[0].free;
    let admit = || {
        let admission = Admission::new(known.clone(), Aggregation::Network, 16);
        jobs.admit(Admission { stepped: true, ..admission })
    };
    let unrecorded = |refusal: Refusal| assert!(matches!(refusal, Refusal::Unrecorded(_)));
    let job = known.job;

    // An admission leaves nothing.
    journal.fail(true);
    unrecorded(admit().await.unwrap_err());
    assert_eq!((free(), jobs.list().len()), (64, 0));

    // After a restart, a job that was moved would be at its old place.
    journal.fail(false);
    admit().await.unwrap();
    journal.fail(true);
    unrecorded(jobs.relocate(job, Aggregation::Network, 24).await.unwrap_err());
    assert_eq!(free(), 64 - 16 - 24, "it holds both");
    let broken = jobs.start(job, 1).unwrap_err();
    assert_eq!(broken, Refusal::Broken(job));

    // A job that was released would be there.
    unrecorded(jobs.release(job).await.unwrap_err());
    assert_eq!(free(), 64 - 16 - 24);
    journal.fail(false);
    jobs.release(job).await.unwrap();
    assert_eq!((free(), jobs.list().len()), (64, 0));
    admit().await.unwrap();
}
