//! What hosts are told that serve a job.

use std::time::Duration;

use tributary_model::OnDeath;
use tributary_model::job::{Begin, Event, Job, Notice, Order, Progress, Rules, Served, Stream};
use tributary_protocol::{Assignment, Time};
use tributary_wire::{Epoch, WorkerIndex, WorkerSet};

fn orders(job: &mut Job, event: Event) -> Vec<Order> {
    job.handle(Time::ZERO, event);
    std::iter::from_fn(|| job.poll()).collect()
}

/// It serves its other jobs meanwhile, for which it waits until it knows the runs of all.
#[test]
fn a_host_that_comes_while_switches_change_is_told_the_run_before() {
    let [before, next] = [7, 8].map(|epoch| Epoch::new(epoch).unwrap());
    let everyone = WorkerSet::first(2);
    let rules = Rules {
        name: "a".into(),
        workers: 2,
        on_death: OnDeath::End,
        stepped: false,
        patience: Duration::from_secs(1),
        grace: None,
    };
    let served = Served {
        epoch: before,
        workers: everyone,
        handover: None,
        begun: true,
        ended: false,
        progress: Progress::new(Assignment::NONE, None),
    };
    let mut job = Job::resume(rules, served);
    for index in 0..2 {
        let worker = WorkerIndex::new(index).unwrap();
        orders(&mut job, Event::Take(Stream(index.into()), worker, None));
    }
    assert!(job.is_changing(), "all workers wait for another run than the one that has begun");
    let host = Stream(9);
    let begin = |epoch| {
        let begin = Begin { epoch, workers: everyone, rounds: 0 };
        Order::Tell(host, Notice::Begin(begin))
    };
    assert_eq!(orders(&mut job, Event::Follow(host)), [begin(before)]);
    orders(&mut job, Event::Changed(Ok(next)));
    assert!(orders(&mut job, Event::Recorded(Ok(()))).contains(&begin(next)));
}
