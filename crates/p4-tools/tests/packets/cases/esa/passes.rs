//! Other packets between the passes of one. BMv2 never lets any in between, and the embedded switch
//! completes all passes of a packet at once; hardware does neither. So these cases run packets
//! through the embedded switch's pipeline pass by pass.

use tributary_dataplane::{EgressInput, Ingress, IngressInput, Instance, Packet, Verdict};
use tributary_p4runtime::p4::v1::update;

use super::{A, AGENT, B, Job, ONE, RACK, fetched};
use crate::cases::cases;
use crate::embedded::Embedded;
use crate::entries::Entry;
use crate::frames::{COLLISION, Frame, ip, mac};
use crate::lab::Outcome::{self, *};
use crate::lab::index;
use crate::scene::{hosts, sum};
use crate::target::{Build, Counts, Target};

cases!("esa::passes":
    victim_grows_before_it_is_evicted, victim_completes_before_it_is_evicted,
    third_task_is_evicted_whatever_its_priority, own_task_was_faster, own_packet_was_faster,
    own_task_needs_only_this_packet, complete_cell_is_evicted, complete_cell_is_fetched,
    complete_cell_is_freed_by_a_result, duplicate_of_a_complete_cell,
    complete_cell_is_evicted_and_begun_anew, complete_cell_is_begun_anew_by_all_others,
);

struct Steps {
    embedded: Embedded,
    counts: Counts,
}

/// A packet between two passes.
struct Waiting {
    packet: Packet,
    frame: Vec<u8>,
}

enum Passed {
    Again(Box<Waiting>),
    Out(Verdict, Vec<u8>),
}

impl Steps {
    fn new() -> Self {
        let mut embedded = Embedded::new(&Build::ESA);
        let p4info = embedded.p4info().clone();
        let mut insert = |entries: Vec<Entry>| {
            let update = |entry: &Entry| entry.update(&p4info, update::Type::Insert);
            embedded.write(&entries.iter().map(update).collect::<Vec<_>>());
        };
        insert(hosts());
        for job in [A, B, RACK, ONE] {
            insert(job.entries());
        }
        Self { embedded, counts: Counts::new() }
    }

    fn values<const N: usize>() -> [Vec<i32>; N] {
        std::array::from_fn(|n| (0..32).map(|i| (n as i32 + 1) * 1_000 - i * i).collect())
    }

    fn pass(&mut self, mut packet: Packet, frame: Vec<u8>, input: IngressInput) -> Passed {
        let forwarding = self.embedded.switch_mut().forwarding_mut().expect("it has a program");
        let pipeline = forwarding.pipeline_mut();
        let Ingress { verdict, resubmit } = pipeline.ingress(&mut packet, &frame, &input);
        if resubmit {
            return Passed::Again(Box::new(Waiting { packet, frame }));
        }
        let mut out = Vec::new();
        if verdict != Verdict::Drop {
            // Not the arrival port, where floods end.
            let input = EgressInput { port: 4, ..EgressInput::default() };
            assert!(!pipeline.egress(&mut packet, &input, &mut out).drop);
        }
        Passed::Out(verdict, out)
    }

    /// The first pass of a packet that needs another.
    fn begin(&mut self, port: u16, frame: &Frame) -> Waiting {
        match self.first(port, frame) {
            Passed::Again(waiting) => *waiting,
            Passed::Out(verdict, _) => panic!("no second pass: {verdict:?}"),
        }
    }

    fn first(&mut self, port: u16, frame: &Frame) -> Passed {
        let forwarding = self.embedded.switch_mut().forwarding_mut().expect("it has a program");
        let packet = forwarding.pipeline().new_packet();
        let input = IngressInput { port, time_us: 0, instance: Instance::Normal };
        self.pass(packet, frame.bytes(), input)
    }

    /// The next pass.
    fn again(&mut self, waiting: Waiting) -> Passed {
        let input = IngressInput { port: 0, time_us: 0, instance: Instance::Resubmitted };
        self.pass(waiting.packet, waiting.frame, input)
    }

    /// The last pass: its outcome and output.
    #[track_caller]
    fn end(&mut self, waiting: Waiting, (job, outcome): (Job, Outcome), out: (Verdict, &[u8])) {
        let passed = self.again(waiting);
        self.is(passed, (job, outcome), out);
    }

    #[track_caller]
    fn is(&mut self, passed: Passed, (job, outcome): (Job, Outcome), out: (Verdict, &[u8])) {
        let Passed::Out(verdict, frame) = passed else { panic!("another pass") };
        let counts = self.embedded.counters();
        let before = std::mem::replace(&mut self.counts, counts.clone());
        let changed = counts.iter().filter(|(at, count)| before.get(at) != Some(count));
        let changed: Vec<i64> = changed.map(|(at, _)| *at).collect();
        assert_eq!(changed, [index(job.slot, outcome)], "{outcome:?} is expected");
        assert_eq!((verdict, &frame[..]), out);
    }

    /// All passes of a packet, without others in between.
    #[track_caller]
    fn whole(&mut self, port: u16, frame: &Frame, fate: (Job, Outcome), out: (Verdict, &[u8])) {
        let mut passed = self.first(port, frame);
        while let Passed::Again(waiting) = passed {
            passed = self.again(*waiting);
        }
        self.is(passed, fate, out);
    }
}

const GONE: (Verdict, &[u8]) = (Verdict::Drop, &[]);

fn to(port: u16, frame: &[u8]) -> (Verdict, &[u8]) {
    (Verdict::Unicast(port), frame)
}

fn multicast(job: Job, frame: &[u8]) -> (Verdict, &[u8]) {
    (Verdict::Multicast(job.group), frame)
}

fn victim_grows_before_it_is_evicted() {
    let mut steps = Steps::new();
    let [x, y, z] = Steps::values();
    steps.whole(1, &A.gradient(0, 7, 3, &x), (A, Absorbed), GONE);
    let strong = B.gradient(0, 1, 3, &z).priority(20);
    let waiting = steps.begin(2, &strong);
    steps.whole(2, &A.gradient(1, 7, 3, &y).priority(30), (A, Added), GONE);
    let evicted = A.evicted(&strong, 7, 0b011, &sum(&[&x, &y])).bytes();
    steps.end(waiting, (B, Preempted), to(A.ps, &evicted));
}

fn victim_completes_before_it_is_evicted() {
    let mut steps = Steps::new();
    let [x, y, z] = Steps::values();
    steps.whole(1, &RACK.gradient(0, 7, 3, &x), (RACK, Absorbed), GONE);
    let strong = B.gradient(0, 1, 3, &z).priority(20);
    let waiting = steps.begin(2, &strong);
    let last = RACK.gradient(1, 7, 3, &y);
    let whole = last.clone().bitmap(0b11).values(&sum(&[&x, &y])).bytes();
    steps.whole(2, &last, (RACK, Completed), to(RACK.ps, &whole));
    steps.end(waiting, (B, Absorbed), GONE);
    // With its own values and nothing else.
    let last = B.gradient(1, 1, 3, &y);
    let result = B.result(&last, &sum(&[&z, &y])).bytes();
    steps.whole(3, &last, (B, Completed), multicast(B, &result));
}

fn third_task_is_evicted_whatever_its_priority() {
    let mut steps = Steps::new();
    let [x, y, z] = Steps::values();
    steps.whole(1, &A.gradient(0, 7, 3, &x), (A, Absorbed), GONE);
    let strong = B.gradient(0, 1, 3, &z).priority(20);
    let waiting = steps.begin(2, &strong);
    let stronger = RACK.gradient(0, 9, 3, &y).priority(255);
    let evicted = A.evicted(&stronger, 7, 0b001, &x).bytes();
    steps.whole(1, &stronger, (RACK, Preempted), to(A.ps, &evicted));
    let evicted = RACK.evicted(&strong, 9, 0b01, &y).bytes();
    steps.end(waiting, (B, Preempted), to(RACK.ps, &evicted));
}

fn own_task_was_faster() {
    let mut steps = Steps::new();
    let [x, y, z] = Steps::values();
    steps.whole(2, &B.gradient(0, 7, 3, &x), (B, Absorbed), GONE);
    let first = A.gradient(0, 1, 3, &y).priority(20);
    let waiting = steps.begin(1, &first);
    let second = A.gradient(1, 1, 3, &z).priority(20);
    let evicted = B.evicted(&second, 7, 0b01, &x).bytes();
    steps.whole(2, &second, (A, Preempted), to(B.ps, &evicted));
    steps.end(waiting, (A, Added), GONE);
    let last = A.gradient(2, 1, 3, &x);
    let result = A.result(&last, &sum(&[&x, &y, &z])).bytes();
    steps.whole(3, &last, (A, Completed), multicast(A, &result));
}

/// The network duplicated a packet.
fn own_packet_was_faster() {
    let mut steps = Steps::new();
    let [x, y] = Steps::values();
    steps.whole(2, &B.gradient(0, 7, 3, &x), (B, Absorbed), GONE);
    let first = A.gradient(0, 1, 3, &y).priority(20);
    let waiting = [steps.begin(1, &first), steps.begin(1, &first)];
    let evicted = B.evicted(&first, 7, 0b01, &x).bytes();
    let [one, two] = waiting;
    steps.end(one, (A, Preempted), to(B.ps, &evicted));
    steps.end(two, (A, Duplicate), GONE);
}

/// It takes over the cell, joins, and completes: three passes.
fn own_task_needs_only_this_packet() {
    let mut steps = Steps::new();
    let [x, y, z] = Steps::values();
    steps.whole(1, &A.gradient(0, 7, 3, &x), (A, Absorbed), GONE);
    let first = B.gradient(0, 1, 3, &y).priority(20);
    let waiting = steps.begin(2, &first);
    let second = B.gradient(1, 1, 3, &z).priority(20);
    let evicted = A.evicted(&second, 7, 0b001, &x).bytes();
    steps.whole(3, &second, (B, Preempted), to(A.ps, &evicted));
    let Passed::Again(waiting) = steps.again(waiting) else { panic!("a third pass frees") };
    let result = B.result(&first, &sum(&[&y, &z])).bytes();
    steps.end(*waiting, (B, Completed), multicast(B, &result));
    steps.whole(1, &A.gradient(0, 8, 3, &x).priority(1), (A, Absorbed), GONE);
}

/// Job `B` of two workers in cell 3, and its completing packet after its first pass.
fn complete(steps: &mut Steps, [x, y]: [&[i32]; 2]) -> (Frame, Waiting) {
    steps.whole(2, &B.gradient(0, 7, 3, x), (B, Absorbed), GONE);
    let last = B.gradient(1, 7, 3, y);
    let waiting = steps.begin(3, &last);
    (last, waiting)
}

fn complete_cell_is_evicted() {
    let mut steps = Steps::new();
    let [x, y, z] = Steps::values();
    let (_, waiting) = complete(&mut steps, [&x, &y]);
    let strong = A.gradient(0, 1, 3, &z).priority(20);
    let evicted = B.evicted(&strong, 7, 0b11, &sum(&[&x, &y])).bytes();
    steps.whole(1, &strong, (A, Preempted), to(B.ps, &evicted));
    // All its values have been forwarded.
    steps.end(waiting, (B, Added), GONE);
    steps.whole(1, &strong, (A, Duplicate), GONE);
}

fn complete_cell_is_fetched() {
    let mut steps = Steps::new();
    let [x, y] = Steps::values();
    let (_, waiting) = complete(&mut steps, [&x, &y]);
    let zeros = vec![0; x.len()];
    let reminder = B.frame(crate::frames::REMINDER, AGENT, 2, 7, 3).values(&zeros).bitmap(0b11);
    let partial = fetched(&reminder, 0b11, &sum(&[&x, &y])).bytes();
    steps.whole(AGENT, &reminder, (B, Reminded), to(AGENT, &partial));
    steps.end(waiting, (B, Added), GONE);
}

fn complete_cell_is_freed_by_a_result() {
    let mut steps = Steps::new();
    let [x, y, z] = Steps::values();
    let (_, waiting) = complete(&mut steps, [&x, &y]);
    let total = B.parameter(7, 3, &z);
    steps.whole(B.ps, &total, (B, Distributed), multicast(B, &total.bytes()));
    steps.end(waiting, (B, Added), GONE);
}

fn duplicate_of_a_complete_cell() {
    let mut steps = Steps::new();
    let [x, y] = Steps::values();
    let (last, waiting) = complete(&mut steps, [&x, &y]);
    steps.whole(2, &B.gradient(0, 7, 3, &x), (B, Duplicate), GONE);
    steps.whole(3, &last, (B, Duplicate), GONE);
    let result = B.result(&last, &sum(&[&x, &y])).bytes();
    steps.end(waiting, (B, Completed), multicast(B, &result));
}

/// The sum was evicted, and the cell taken again by a late copy of a packet. The completing packet
/// takes that along, and is not marked complete unless it is.
fn complete_cell_is_evicted_and_begun_anew() {
    for copy_of_itself in [false, true] {
        let mut steps = Steps::new();
        let [x, y, z] = Steps::values();
        steps.whole(1, &A.gradient(0, 7, 3, &x), (A, Absorbed), GONE);
        steps.whole(2, &A.gradient(1, 7, 3, &y), (A, Added), GONE);
        let last = A.gradient(2, 7, 3, &z);
        let waiting = steps.begin(3, &last);
        let zeros = vec![0; x.len()];
        let reminder =
            A.frame(crate::frames::REMINDER, AGENT, 1, 7, 3).values(&zeros).bitmap(0b111);
        let partial = fetched(&reminder, 0b111, &sum(&[&x, &y, &z])).bytes();
        steps.whole(AGENT, &reminder, (A, Reminded), to(AGENT, &partial));
        let partial = if copy_of_itself {
            steps.whole(3, &last, (A, Absorbed), GONE);
            last.clone().flags(COLLISION)
        } else {
            steps.whole(1, &A.gradient(0, 7, 3, &x), (A, Absorbed), GONE);
            last.clone().flags(COLLISION).bitmap(0b101).values(&sum(&[&x, &z]))
        };
        let addressed = partial.with(|f| (f.destination, f.ip_destination) = (mac(A.ps), ip(A.ps)));
        steps.end(waiting, (A, Flushed), to(A.ps, &addressed.bytes()));
        steps.whole(2, &B.gradient(0, 1, 3, &x).priority(1), (B, Absorbed), GONE);
    }
}

/// All others resent the fetched values: with the completing packet, that is the sum again.
fn complete_cell_is_begun_anew_by_all_others() {
    let mut steps = Steps::new();
    let [x, y] = Steps::values();
    let (last, waiting) = complete(&mut steps, [&x, &y]);
    let total = B.parameter(7, 3, &y);
    steps.whole(B.ps, &total, (B, Distributed), multicast(B, &total.bytes()));
    steps.whole(2, &B.gradient(0, 7, 3, &x), (B, Absorbed), GONE);
    let result = B.result(&last, &sum(&[&x, &y])).bytes();
    steps.end(waiting, (B, Completed), multicast(B, &result));
}
