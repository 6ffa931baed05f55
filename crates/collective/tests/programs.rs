//! All groups of a process run the same program, which is compiled once. This is the only test of its process.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tributary_collective::{
    Call, Communicator, Group as _, GroupSwitch, Members, Ranks, Settings, Values, tunnels,
};

const TIMEOUT: Duration = Duration::from_secs(60);

/// What is logged each time.
const TIMES: [(&str, &AtomicU32); 3] = [
    ("compiling a P4 program for its controller", &FOR_CONTROLLERS),
    ("compiling a P4 program for a switch", &FOR_SWITCHES),
    ("translating a P4 program to machine code", &TRANSLATIONS),
];

static FOR_CONTROLLERS: AtomicU32 = AtomicU32::new(0);
static FOR_SWITCHES: AtomicU32 = AtomicU32::new(0);
static TRANSLATIONS: AtomicU32 = AtomicU32::new(0);

/// Counts log lines.
struct Counter;

impl<S: Subscriber> Layer<S> for Counter {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        event.record(&mut Line);
    }
}

struct Line;

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let text = format!("{value:?}");
        if let Some((_, count)) =
            TIMES.iter().find(|(line, _)| field.name() == "message" && text == *line)
        {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn counts() -> [u32; 3] {
    TIMES.map(|(_, count)| count.load(Ordering::Relaxed))
}

/// A group of two ranks in this process.
struct Group {
    communicators: [Communicator; 2],
    _switch: GroupSwitch,
}

impl Group {
    fn new() -> Self {
        let settings = Settings::complete("", Ranks::of_one_host(2), TIMEOUT).unwrap();
        let (needed, address) = (settings.threads().unwrap().tunnels(), Ipv4Addr::LOCALHOST.into());
        let tunnels = tunnels::endpoint(address, needed).unwrap();
        let ends = [Vec::new(), tunnels::addresses(&tunnels).unwrap()];
        let members = Members::each_alone(2);
        let mut switch = GroupSwitch::start(settings, &members, address, &ends).unwrap();
        let description = switch.description().clone();
        let first = Communicator::join(&description, 0, Vec::new(), Some(&mut switch)).unwrap();
        let second = Communicator::join(&description, 1, tunnels, None).unwrap();
        Self { communicators: [first, second], _switch: switch }
    }

    /// Sums so many values, and checks the sums.
    fn sum(&self, elements: usize) {
        let mut memory = [vec![1.0; elements], vec![2.0; elements]];
        let begin = |(values, rank): (&mut Vec<f32>, &Communicator)| {
            let start = std::ptr::NonNull::new(values.as_mut_ptr()).unwrap();
            let keeper = std::sync::Arc::new(());
            // SAFETY: the values are used after the call only.
            let lent = unsafe { tributary_protocol::buffer::Buffer::lent(start, elements, keeper) };
            rank.call(Call::Reduce { values: Values::Single(lent), average: false, layer: None })
        };
        let calls: Vec<_> = memory.iter_mut().zip(&self.communicators).map(begin).collect();
        calls.iter().for_each(|call| assert_eq!(call.wait(TIMEOUT).expect("in time"), Ok(())));
        assert!(memory.iter().flatten().all(|sum| *sum == 3.0));
    }
}

#[test]
fn groups_of_a_process_share_a_program_that_is_compiled_once() {
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(Counter)).unwrap();
    let first = Group::new();
    // Enough packets for machine code.
    let begun = Instant::now();
    while counts()[2] == 0 {
        assert!(begun.elapsed() < TIMEOUT, "no machine code");
        first.sum(500_000);
    }
    assert_eq!(counts(), [1, 1, 1]);
    // Several at once, in threads.
    let others: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let group = Group::new();
                    group.sum(2_000_000);
                    group
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(counts(), [1, 1, 1]);
    // Groups after the end of others.
    drop(others);
    Group::new().sum(2_000_000);
    first.sum(1_000);
    assert_eq!(counts(), [1, 1, 1]);
    // No group is left, and the program is kept.
    drop(first);
    Group::new().sum(2_000_000);
    assert_eq!(counts(), [1, 1, 1]);
}
