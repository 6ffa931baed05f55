//! The numbers of running workers, for metrics and live views.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use tributary_metrics::{Board, Entry, Page, Schedule, Source};
use tributary_protocol::worker::{Delays, Stats};
use tributary_protocol::{Histogram, Rate, Time, Worker};
use tributary_wire::{JobId, WorkerIndex};

/// What a lane of a worker has counted so far.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    /// The job; each lane has its own.
    pub job: JobId,
    /// The worker.
    pub worker: WorkerIndex,
    /// Its counters.
    pub stats: Stats,
    /// Times from sending a fragment to its result.
    pub round_trips: Histogram,
    /// The congestion window in packets.
    pub window: u32,
    /// The rate at which it sends, if that is limited.
    pub rate: Option<Rate>,
    /// Fragments that it has sent, in this run.
    pub sent: u32,
}

impl Numbers {
    fn of(worker: &Worker) -> Self {
        let config = worker.config();
        Self {
            job: config.job.job,
            worker: config.index,
            stats: *worker.stats(),
            round_trips: *worker.round_trips(),
            window: worker.window(),
            rate: worker.rate(),
            sent: worker.fragments_sent(),
        }
    }
}

/// Publishes the numbers of a worker.
#[derive(Debug)]
pub(crate) struct Publisher {
    entry: Entry<Numbers>,
    schedule: Schedule,
}

impl Publisher {
    pub(crate) fn new(board: &Board<Numbers>, worker: &Worker) -> Self {
        Self { entry: board.post(Numbers::of(worker)), schedule: Schedule::default() }
    }

    /// In each turn of the worker: publishes if it is time to.
    #[inline]
    pub(crate) fn look(&mut self, now: Time, worker: &Worker) {
        if self.schedule.is_due(Duration::from_nanos(now.as_nanos())) {
            self.publish(worker);
        }
    }

    #[cold]
    pub(crate) fn publish(&self, worker: &Worker) {
        let now = Numbers::of(worker);
        self.entry.update(|numbers| *numbers = now);
    }
}

/// The metrics of all workers on a board.
#[derive(Debug)]
pub struct Workers {
    board: Board<Numbers>,
    /// The only worker of this process: its index in packets changes when others die.
    name: Option<WorkerIndex>,
}

impl Workers {
    /// All workers of a process, each under its index in packets.
    #[must_use]
    pub fn new(board: Board<Numbers>) -> Self {
        Self { board, name: None }
    }

    /// The only worker of a process.
    #[must_use]
    pub fn of(name: WorkerIndex, board: Board<Numbers>) -> Self {
        Self { board, name: Some(name) }
    }
}

impl Source for Workers {
    fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        // A process that hands a worker over to a successor has two entries for a moment: the later counts.
        let named = |numbers: Numbers| {
            let worker = self.name.unwrap_or(numbers.worker);
            ((numbers.job, worker), Numbers { worker, ..numbers })
        };
        let all = self.board.read().into_iter().map(named);
        let all: Vec<Numbers> = all.collect::<BTreeMap<_, _>>().into_values().collect();
        let labels = |numbers: &Numbers| {
            [
                ("job_id", numbers.job.get().to_string()),
                ("worker", numbers.worker.get().to_string()),
            ]
        };
        let counts = |what: fn(&Stats) -> u64| {
            all.iter().map(move |numbers| (labels(numbers), what(&numbers.stats)))
        };
        let arrivals = all.iter().flat_map(|numbers| {
            let Stats { results, replies, delivered, .. } = numbers.stats;
            let multicast = results.saturating_sub(replies + delivered);
            [("multicast", multicast), ("reply", replies), ("channel", delivered)].map(
                |(outcome, count)| {
                    let [job, worker] = labels(numbers);
                    ([job, worker, ("outcome", outcome.to_owned())], count)
                },
            )
        });
        page.counter(
            "tributary_worker_fragments_total",
            "Fragments with a result, by how it came: multicast, in a reply of the parameter server, or over \
             ESA's channel",
            arrivals,
        )?;
        for (name, help, what) in COUNTERS {
            page.counter(name, help, counts(what))?;
        }
        let lost = all.iter().flat_map(|numbers| {
            let Delays { resent, reminded, delivered, .. } = numbers.stats.delays;
            [("packets", resent), ("agent", reminded), ("channel", delivered)].map(
                |(repair, waits)| {
                    let [job, worker] = labels(numbers);
                    ([job, worker, ("repair", repair.to_owned())], waits.total.as_secs_f64())
                },
            )
        });
        page.counter_of_seconds(
            "tributary_worker_lost_seconds_total",
            "Time without results until those of repaired fragments, by repair: sent again in packets, through \
             the reminder agent, or a result over ESA's channel",
            lost,
        )?;
        page.histogram(
            "tributary_worker_rtt_seconds",
            "Time from sending a fragment to its result, of fragments that were sent once",
            all.iter().map(|numbers| {
                let buckets = numbers.round_trips.buckets();
                let buckets = buckets.map(|(bound, n)| (bound.map(|it| it.as_secs_f64()), n));
                (labels(numbers), (numbers.round_trips.sum().as_secs_f64(), buckets.collect()))
            }),
        )?;
        let gauge = |what: fn(&Numbers) -> f64| {
            all.iter().map(move |numbers| (labels(numbers), what(numbers)))
        };
        page.gauge(
            "tributary_worker_window_packets",
            "Congestion window",
            gauge(|numbers| numbers.window.into()),
        )?;
        page.gauge(
            "tributary_worker_position_fragments",
            "Fragments sent in this run of the job, to compare its workers by",
            gauge(|numbers| numbers.sent.into()),
        )?;
        let limited = all.iter().filter_map(|it| Some((labels(it), it.rate?.get() as f64 / 8.0)));
        page.gauge(
            "tributary_worker_rate_limit_bytes_per_second",
            "Rate to which the controller limits the worker's values",
            limited,
        )
    }
}

/// A counter: its name, what it counts, and where it is.
type Counter = (&'static str, &'static str, fn(&Stats) -> u64);

const COUNTERS: [Counter; 13] = [
    ("tributary_worker_packets_sent_total", "Packets sent, resends included", |it| it.sent),
    ("tributary_worker_packets_resent_total", "Packets sent again", |it| it.resent),
    (
        "tributary_worker_losses_detected_total",
        "Fragments taken for lost because of later results",
        |it| it.fast_resends,
    ),
    ("tributary_worker_timeouts_total", "Retransmission timeouts", |it| it.timeouts),
    ("tributary_worker_float_results_total", "Results in floating point", |it| it.overflow_results),
    (
        "tributary_worker_coarser_results_total",
        "Results that ask for the fragment at a coarser scale",
        |it| it.coarser,
    ),
    (
        "tributary_worker_collided_results_total",
        "Results of fragments that met a collision in a switch",
        |it| it.collisions,
    ),
    ("tributary_worker_marked_results_total", "Results with a congestion mark", |it| it.marked),
    ("tributary_worker_duplicate_results_total", "Results that came again", |it| it.duplicates),
    (
        "tributary_worker_packets_returned_total",
        "Packets that a switch returned because their aggregator was busy (P4INC)",
        |it| it.asynchronous,
    ),
    (
        "tributary_worker_queries_total",
        "Queries of the parameter server that were answered",
        |it| it.queries,
    ),
    ("tributary_worker_reminders_total", "Reminders to the reminder agent (ESA)", |it| {
        it.reminders
    }),
    (
        "tributary_worker_frames_rejected_total",
        "Frames dropped as malformed, or as not for this worker",
        |it| it.rejected.total(),
    ),
];
