//! What users are told about jobs that wait, or are refused.

use tonic::Code;
use tributary_api::placement::v1;
use tributary_api::placement::v1::job::State;

use super::{Place, request};

#[test]
fn a_job_that_waits_has_a_reason() {
    let place = Place::start();
    let job = place.submit("four", 4).unwrap();
    let why = |listed: &v1::ListResponse, job: u32| {
        let job = listed.jobs.iter().find(|listed| listed.job_id == job).unwrap();
        assert_eq!(job.state(), State::Waiting);
        assert!(!job.reason.is_empty());
        job.reason.clone()
    };
    place.until(|listed| why(listed, job) == "no server's agent is connected");
    let _agent = place.agent("w1");
    let fewer = "it wants 4 GPUs, and the servers with an agent have 2";
    place.until(|listed| why(listed, job) == fewer);
}

#[test]
fn a_job_that_waits_for_others_has_a_reason() {
    let place = Place::start();
    let _agent = place.agent("w1");
    let command = ["sh", "-c", "exec sleep 60"].map(str::to_owned).to_vec();
    let directory = place.directory.path().display().to_string();
    let long = v1::SubmitRequest { command, directory, ..request("long", 1) };
    let first = place.runtime.block_on(place.client().submit(long)).unwrap().into_inner().job_id;
    let state = |listed: &v1::ListResponse, job: u32| {
        let job = listed.jobs.iter().find(|listed| listed.job_id == job).unwrap();
        (job.state(), job.reason.clone())
    };
    place.until(|listed| state(listed, first).0 == State::Running);
    let second = place.submit("second", 2).unwrap();
    let why = (State::Waiting, "it wants 2 GPUs, and 1 is free".to_owned());
    place.until(|listed| state(listed, second) == why);
    let cancel = v1::CancelRequest { job_id: first };
    place.runtime.block_on(place.client().cancel(cancel)).unwrap();
    assert_eq!(place.watch(second).last().unwrap().state(), State::Finished);
    assert_eq!(state(&place.list(), first), (State::Cancelled, "a client cancelled it".to_owned()));
}

#[test]
fn a_job_that_the_switches_do_not_serve_says_so() {
    let place = Place::start();
    place.switches.be_away(true);
    let _agents = ["w1", "w2"].map(|server| place.agent(server));
    let alone = place.submit("alone", 1).unwrap();
    assert_eq!(place.watch(alone).last().unwrap().state(), State::Finished);
    let job = place.submit("wide", 3).unwrap();
    let seen = |listed: &v1::ListResponse| listed.jobs.last().unwrap().clone();
    let expected = "the switches do not serve it yet; their controller: it is on a journey";
    place.until(|listed| seen(listed).state() == State::Running && seen(listed).reason == expected);
    assert_eq!(seen(&place.list()).packet_id, job);
    place.switches.be_away(false);
    assert_eq!(place.watch(job).last().unwrap().state(), State::Finished);
    assert_eq!(seen(&place.list()).reason, "");
    // Packets, metrics and the controller's lists call it by the number that its user knows.
    assert_eq!(place.switches.seen().0.last().unwrap().0, job);
    assert_eq!(seen(&place.list()).packet_id, 0, "the number is free again");
}

#[test]
fn no_job_is_first_for_ever() {
    let place = Place::start();
    let submit = |value: f64| {
        let wanted = v1::SubmitRequest { value, ..request("valued", 1) };
        place.runtime.block_on(place.client().submit(wanted))
    };
    for value in [1e308, 1000.1, f64::INFINITY] {
        let status = submit(value).unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().len() < 100, "{}", status.message());
    }
    assert_eq!(submit(1e308).unwrap_err().message(), "a value of 1e308: choose at most 1000");
    assert!(submit(1000.0).is_ok());
}

#[test]
fn the_service_explains_jobs() {
    let place = Place::start();
    let _agents = ["w1", "w2"].map(|server| place.agent(server));
    let job = place.submit("long", 4).unwrap();
    place.until(|listed| listed.jobs[0].state() == State::Running);
    let explain = |job_id| {
        let asked = v1::ExplainRequest { job_id };
        place.runtime.block_on(place.client().explain(asked)).map(tonic::Response::into_inner)
    };
    let explained = explain(job).unwrap();
    assert_eq!(explained.job.as_ref().map(|job| job.state()), Some(State::Running));
    assert_eq!((&*explained.policy, explained.plans.len()), ("first-fit", 0));
    // Both servers have a worker, and the second also the parameter server.
    assert_eq!(explained.rate_gbps, Some(50.0), "{explained:#?}");
    assert_eq!(explain(77).unwrap_err().code(), Code::NotFound);
    let cancel = v1::CancelRequest { job_id: job };
    place.runtime.block_on(place.client().cancel(cancel)).unwrap();
    assert_eq!(place.watch(job).last().unwrap().state(), State::Cancelled);
}
