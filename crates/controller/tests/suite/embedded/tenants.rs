//! Tenants: their quotas and limits, and whose workers take part in whose jobs.

use std::num::NonZeroU64;
use std::sync::Arc;

use tokio_stream::StreamExt as _;
use tonic::{Code, Request, Status};
use tributary_access::{Caller, Grant, Remote, Role, Tenant};
use tributary_api::jobs::v1;
use tributary_api::jobs::v1::jobs_server::{Jobs as Service, JobsServer};
use tributary_controller::service::Jobs;
use tributary_wire::JobId;

use crate::embedded::leases::{KEY, Life, Site, leased, plain};
use crate::embedded::taking::Taking;
use crate::support::{self, Kit as _};

/// A request of a client.
fn by<T>(who: &Grant, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.extensions_mut().insert(who.clone());
    request
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_have_quotas_and_only_their_own_jobs() {
    let site = Site::new();
    let life = site.live().await;
    let tenant = |name: &str, jobs| {
        let (name, aggregators) = (name.into(), Some(40));
        let (max_rate, max_preemption, max_priority, max_value) = Default::default();
        let tenant =
            Tenant { name, jobs, aggregators, max_rate, max_preemption, max_priority, max_value };
        Grant::new(Caller::Anyone, Role::Submit, Some(Arc::new(tenant)))
    };
    let (blue, red) = (tenant("blue", Some(2)), tenant("red", None));
    let observer = Grant::new(Caller::Anyone, Role::Observe, None);
    let jobs = &life.jobs;
    let admit = async |who: &Grant, job_id, workers: &[&str]| {
        let request = v1::AdmitRequest { stepped: true, ..plain(job_id, workers) };
        let answer = Service::admit(jobs, by(who, request)).await;
        answer.map(drop).map_err(|status| (status.code(), status.message().to_owned()))
    };
    let pairs = [["w1", "w2"], ["w1", "w3"], ["w1", "w4"]];
    admit(&blue, 2, &pairs[0]).await.unwrap();
    admit(&blue, 3, &pairs[1]).await.unwrap();
    let why = "tenant `blue` has 2 of 2 jobs; the request needs 1 more";
    assert_eq!(admit(&blue, 4, &pairs[2]).await, Err((Code::ResourceExhausted, why.into())));
    assert_eq!(jobs.refused(), [(("blue".to_owned(), "quota"), 1)].into());
    // Its aggregators are enough for a job, and not for one that becomes larger.
    admit(&red, 4, &pairs[2]).await.unwrap();
    let enlarge = |job_id, size| v1::MoveRequest {
        job_id,
        size,
        aggregation: v1::Aggregation::Network.into(),
    };
    let status = Service::r#move(jobs, by(&blue, enlarge(3, 32))).await.unwrap_err();
    let why = "tenant `blue` has 16 of 40 aggregators; the request needs 32 more";
    assert_eq!((status.code(), status.message()), (Code::ResourceExhausted, why));
    Service::r#move(jobs, by(&blue, enlarge(3, 8))).await.unwrap();

    // Others' jobs are out of reach, for reading, too.
    let denied = |result: Result<(), Status>| {
        let status = result.unwrap_err();
        let expected = (Code::PermissionDenied, "job 4 is another tenant's");
        assert_eq!((status.code(), status.message()), expected);
    };
    let job_id = 4;
    denied(Service::release(jobs, by(&blue, v1::ReleaseRequest { job_id })).await.map(drop));
    denied(Service::r#move(jobs, by(&blue, enlarge(4, 8))).await.map(drop));
    let rate = v1::SetRateRequest { job_id, rate: 1000 };
    denied(Service::set_rate(jobs, by(&blue, rate)).await.map(drop));
    let start = v1::StartIterationRequest { job_id, number: 0 };
    denied(Service::start_iteration(jobs, by(&blue, start)).await.map(drop));
    let finish = v1::FinishIterationRequest { job_id, number: 1, worker: 0 };
    denied(Service::finish_iteration(jobs, by(&blue, finish)).await.map(drop));
    let watch = v1::WatchRequest { job_id, epoch: 0 };
    denied(Service::watch(jobs, by(&blue, watch)).await.map(drop));
    let seen = async |jobs: &Jobs, who: &Grant| {
        let listed = Service::list(jobs, by(who, v1::ListRequest {})).await.unwrap();
        let jobs = listed.into_inner().jobs.into_iter();
        jobs.map(|job| (job.job_id, job.tenant)).collect::<Vec<_>>()
    };
    let blues = [(2, "blue".to_owned()), (3, "blue".to_owned())];
    assert_eq!(seen(jobs, &blue).await, blues);
    assert_eq!(seen(jobs, &red).await, [(4, "red".to_owned())]);
    for who in [&observer, &Grant::operator()] {
        assert_eq!(seen(jobs, who).await.len(), 3);
    }
    let changed = admit(&observer, 5, &["w2", "w3"]).await.unwrap_err();
    assert_eq!(changed.0, Code::PermissionDenied);
    let nobody = v1::ReleaseRequest { job_id };
    let unknown = Service::release(jobs, Request::new(nobody)).await.unwrap_err();
    assert_eq!(unknown.code(), Code::PermissionDenied);

    // An operator, such as the placement manager, has jobs for others; these have none but their own.
    let request = v1::AdmitRequest { tenant: "red".into(), ..plain(6, &["w2", "w3"]) };
    let foreign = Service::admit(jobs, by(&blue, request.clone())).await.unwrap_err();
    assert_eq!(foreign.code(), Code::PermissionDenied);
    Service::admit(jobs, by(&Grant::operator(), request)).await.unwrap();
    assert_eq!(seen(jobs, &red).await, [(4, "red".to_owned()), (6, "red".to_owned())]);
    let own = v1::ReleaseRequest { job_id: 6 };
    Service::release(jobs, by(&red, own)).await.unwrap();

    // The next controller knows whose jobs they are.
    drop(life);
    let life = site.live().await;
    assert_eq!(seen(&life.jobs, &blue).await, blues);
    let one_more = plain(5, &["w2", "w3"]);
    let full = Service::admit(&life.jobs, by(&blue, one_more)).await.unwrap_err();
    assert_eq!(full.code(), Code::ResourceExhausted);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenants_limits_reach_switches_and_workers() {
    let site = Site::new();
    let life = site.live().await;
    let tenant = Tenant {
        name: "slow".into(),
        jobs: None,
        aggregators: None,
        max_rate: NonZeroU64::new(8_000_000),
        max_preemption: None,
        max_priority: None,
        max_value: None,
    };
    let slow = Grant::new(Caller::Anyone, Role::Submit, Some(Arc::new(tenant)));
    let jobs = &life.jobs;
    let limits = async || {
        let session = &jobs.controller().switches()[0];
        support::entries_of(session, &site.kit.pipeline(), ".limits").await
    };
    assert!(limits().await.is_empty());
    let request = plain(5, &["w2", "w3"]);
    let admitted = Service::admit(jobs, by(&slow, request)).await.unwrap().into_inner();
    assert_eq!(admitted.rate, 8_000_000);
    // Twice the rate of values, in bytes: ports 2 and 3.
    assert_eq!(limits().await, ["5 2 → limit 2000000 B/s", "5 3 → limit 2000000 B/s"]);
    let rate = async |wanted: Option<u64>| {
        let job_id = 5;
        if let Some(rate) = wanted {
            let request = v1::SetRateRequest { job_id, rate };
            Service::set_rate(jobs, by(&slow, request)).await.unwrap();
        }
        let watch = v1::WatchRequest { job_id, epoch: 0 };
        let watch = Service::watch(jobs, by(&slow, watch)).await.unwrap();
        watch.into_inner().next().await.unwrap().unwrap().rate
    };
    assert_eq!(rate(None).await, 8_000_000);
    assert_eq!(rate(Some(1_000_000)).await, 1_000_000);
    assert_eq!(rate(Some(9_000_000)).await, 8_000_000);
    assert_eq!(rate(Some(0)).await, 8_000_000);

    // Those of a job of the file hear of the limits, too.
    let (job_id, aggregation) = (1, v1::Aggregation::Network.into());
    let of_file = v1::AdmitRequest { job_id, aggregation, size: 8, ..Default::default() };
    Service::admit(jobs, by(&slow, of_file)).await.unwrap();
    let setup = async |life: &Life| {
        let mut worker = Taking::worker(&life.address, "job1", 0, 0).await.unwrap();
        worker.setup().await.unwrap()
    };
    let before = setup(&life).await;
    let told = String::from_utf8(before.deployment.clone()).unwrap();
    assert!(told.contains("\"rate\":8000000"), "{told}");

    // The limits outlive the controller, and end with the job.
    drop(life);
    let life = site.live().await;
    assert_eq!(setup(&life).await, before);
    life.jobs.release(JobId::new(1).unwrap()).await.unwrap();
    let session = &life.jobs.controller().switches()[0];
    assert_eq!(session.found().updates, 0);
    life.jobs.release(JobId::new(5).unwrap()).await.unwrap();
    assert!(support::entries_of(session, &site.kit.pipeline(), ".limits").await.is_empty());
}

/// Nobody takes part in another tenant's job.
#[tokio::test(flavor = "multi_thread")]
async fn a_tenants_workers_take_part_in_its_jobs_only() {
    let site = Site::new();
    let life = site.live().await;
    let tenant = |name: &str| {
        let (jobs, aggregators, name) = (None, None, name.into());
        let (max_rate, max_preemption, max_priority, max_value) = Default::default();
        let tenant =
            Tenant { name, jobs, aggregators, max_rate, max_preemption, max_priority, max_value };
        Grant::new(Caller::Anyone, Role::Submit, Some(Arc::new(tenant)))
    };
    let (blue, red) = (tenant("blue"), tenant("red"));
    let aggregation = v1::Aggregation::Network.into();
    let request = v1::AdmitRequest { job_id: 1, aggregation, size: 8, ..Default::default() };
    Service::admit(&life.jobs, by(&blue, request)).await.unwrap();
    Service::admit(&life.jobs, by(&blue, leased(5, &["w3", "w4"]))).await.unwrap();
    let take = async |grant: Grant| {
        let jobs = life.jobs.clone();
        let door = move |mut request: Request<()>| {
            request.extensions_mut().insert(grant.clone());
            Ok(request)
        };
        let service = JobsServer::with_interceptor(jobs, door);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
        let server = tonic::transport::Server::builder().add_service(service);
        tokio::spawn(server.serve_with_incoming(incoming));
        let controller = Remote::new(&address, None).unwrap().unwrap();
        let worker = Taking::worker(&controller, "job1", 0, 0).await;
        let wrong = Taking::of_admitted(&controller, 5, b"another", 0, 0).await;
        assert_eq!(wrong.map(drop).unwrap_err().code(), Code::PermissionDenied);
        let keyed = Taking::of_admitted(&controller, 5, KEY, 0, 0).await;
        assert!(keyed.is_ok(), "the key is enough");
        let host = Taking::server(&controller, "ps").await;
        (worker.map(drop).err().map(|status| status.code()), host.is_ok())
    };
    let refused = Some(Code::PermissionDenied);
    assert_eq!(take(blue).await, (None, false));
    assert_eq!(take(red).await, (refused, false));
    let observer = Grant::new(Caller::Anyone, Role::Observe, None);
    assert_eq!(take(observer).await, (refused, false));
    assert_eq!(take(Grant::operator()).await, (None, true));
    // The agent of a host serves there, and nowhere else.
    let agent = |name: &str| {
        let caller = Caller::Certified([name.to_owned()].into());
        Grant::new(caller, Role::Agent, None)
    };
    assert_eq!(take(agent("ps.nodes")).await, (refused, true));
    assert_eq!(take(agent("w1.nodes")).await, (refused, false));
}
