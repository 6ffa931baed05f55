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

const WAITS: Duration = Duration::from_secs(1);

/// A job of two workers whose streams may be away for so long, with the run before its next one.
fn job(patience: Duration, begun: bool) -> (Job, Epoch) {
    let epoch = Epoch::new(7).unwrap();
    let rules = Rules {
        name: "a".into(),
        workers: 2,
        on_death: OnDeath::End,
        stepped: false,
        patience,
        grace: None,
    };
    let served = Served {
        epoch,
        workers: WorkerSet::first(2),
        handover: None,
        begun,
        ended: false,
        progress: Progress::new(Assignment::NONE, None),
    };
    (Job::resume(rules, served), epoch)
}

fn take(job: &mut Job, stream: Stream, index: u16) -> Vec<Order> {
    orders(job, Event::Take(stream, WorkerIndex::new(index).unwrap(), None))
}

/// Such as a rank of a group that leaves before another one has joined.
#[test]
fn a_worker_need_not_wait_for_one_that_has_given_up_for_good() {
    let ends: [fn(Stream) -> Vec<Event>; 2] = [
        |stream| vec![Event::Failed(stream, "gave up".into()), Event::Gone(stream)],
        |stream| vec![Event::Gone(stream)],
    ];
    for (end, named) in ends.into_iter().zip(["gave up", "is gone"]) {
        for patience in [Duration::ZERO, WAITS] {
            let (mut job, _) = job(patience, false);
            take(&mut job, Stream(1), 0);
            end(Stream(1)).into_iter().for_each(|event| drop(orders(&mut job, event)));
            let told = take(&mut job, Stream(2), 1);
            let lost = told.iter().filter_map(|order| match order {
                Order::Tell(stream, Notice::Lost(worker, why)) => {
                    Some((*stream, worker.get(), why.contains(named)))
                }
                _ => None,
            });
            let expected: &[_] = if patience.is_zero() { &[(Stream(2), 0, true)] } else { &[] };
            assert_eq!(lost.collect::<Vec<_>>(), expected, "{named}, {patience:?}");
            // It may be started again all the same.
            take(&mut job, Stream(3), 0);
            orders(&mut job, Event::Recorded(Ok(())));
            assert!(job.is_taken_part_in() && job.served().begun);
        }
    }
}

/// Also if there are several, and one of them comes back.
#[test]
fn a_worker_learns_of_each_that_has_given_up() {
    let (mut job, _) = job(Duration::ZERO, false);
    for (stream, index) in [(1, 0), (2, 1)] {
        take(&mut job, Stream(stream), index);
        orders(&mut job, Event::Gone(Stream(stream)));
    }
    let told = take(&mut job, Stream(3), 0);
    let lost = |order: &Order| matches!(order, Order::Tell(Stream(3), Notice::Lost(worker, _)) if worker.get() == 1);
    assert_eq!(told.iter().filter(|order| lost(order)).count(), 1, "{told:?}");
}

/// It serves its other jobs meanwhile, for which it waits until it knows the runs of all.
#[test]
fn a_host_that_comes_while_switches_change_is_told_the_run_before() {
    let (mut job, before) = job(WAITS, true);
    let next = Epoch::new(8).unwrap();
    let everyone = WorkerSet::first(2);
    for index in 0..2 {
        take(&mut job, Stream(index.into()), index);
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
