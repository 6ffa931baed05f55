//! Programs that are replaced or dropped at any moment of their translation to machine code.

use std::time::{Duration, Instant};

use tributary_dataplane::{EgressInput, EngineKind, IngressInput, Packet, Pipeline};

use crate::suite::common::atp;

/// Number of moments, spread over the duration of a translation and a little more.
const MOMENTS: u32 = 24;

/// Packets before a program is translated, and a few more.
const ENOUGH: u32 = 520;

/// Maximum time to wait for threads to end on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Threads that translate programs.
fn translators() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux has it");
    let names = tasks.filter_map(|task| std::fs::read(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.trim_ascii() == b"p4-translator").count()
}

/// Bytes of mapped address space.
fn mapped() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    let pages: usize = statm.split(' ').next().unwrap().parse().unwrap();
    pages * 4096
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "{what} takes too long");
        std::thread::sleep(Duration::from_millis(1));
    }
    begun.elapsed()
}

/// A pipeline with its packet and the frames that it sends.
struct Run {
    pipeline: Pipeline,
    packet: Packet,
    out: Vec<u8>,
}

impl Run {
    fn new(kind: EngineKind) -> Self {
        let mut pipeline = atp::switch(VALUES);
        pipeline.use_engine(kind);
        let packet = pipeline.new_packet();
        Self { pipeline, packet, out: Vec::new() }
    }

    /// What the program does with a packet.
    fn packet(&mut self, number: u32) -> String {
        let (worker, cell) = (number % 2, number / 2 % 8);
        let frame = atp::gradient(worker, cell, cell, &[number; VALUES]);
        let input = IngressInput { port: worker as u16 + 1, ..IngressInput::default() };
        let ingress = self.pipeline.ingress(&mut self.packet, &frame, &input);
        let leaving = EgressInput { port: 1, ..EgressInput::default() };
        let egress = self.pipeline.egress(&mut self.packet, &leaving, &mut self.out);
        format!("{ingress:?} {egress:?} {:x?}", self.out)
    }
}

const VALUES: usize = 64;

#[test]
fn programs_are_replaced_at_any_moment_of_their_translation() {
    let mut whole = Run::new(EngineKind::Automatic);
    (0..ENOUGH).for_each(|number| drop(whole.packet(number)));
    let duration = wait_for("the translation", || whole.pipeline.is_compiled());
    drop(whole);
    wait_for("the translator", || translators() == 0);

    let mut reference = Run::new(EngineKind::Interpreter);
    let before: Vec<String> = (0..ENOUGH).map(|number| reference.packet(number)).collect();
    let after: Vec<String> = (0..64).map(|number| reference.packet(number)).collect();
    let space = mapped();
    for moment in 0..MOMENTS {
        let mut run = Run::new(EngineKind::Automatic);
        for (number, expected) in (0..).zip(&before) {
            assert_eq!(&run.packet(number), expected, "packet {number} before moment {moment}");
        }
        std::thread::sleep(duration * moment / (MOMENTS - 4));
        match moment % 3 {
            // The program ends.
            0 => drop(run),
            // Its engine is replaced; its state is kept.
            1 => {
                let kind =
                    if moment % 2 == 0 { EngineKind::Compiled } else { EngineKind::Automatic };
                run.pipeline.use_engine(kind);
                for (number, expected) in (0..).zip(&after) {
                    assert_eq!(&run.packet(number), expected, "packet {number} at moment {moment}");
                }
            }
            // Another one takes its place, while the first one is still being translated.
            _ => {
                let mut next = Run::new(EngineKind::Automatic);
                for (number, expected) in (0..).zip(&before) {
                    assert_eq!(&next.packet(number), expected, "packet {number} of the next one");
                }
                drop(run);
                for (number, expected) in (0..).zip(&after) {
                    assert_eq!(&next.packet(number), expected, "packet {number} of the next one");
                }
            }
        }
    }
    wait_for("a translator", || translators() == 0);
    // A program's code has 64 MiB of address space for itself; some of it may be freed late.
    let grown = mapped().saturating_sub(space);
    assert!(
        grown < MOMENTS as usize / 2 * (64 << 20),
        "{} MiB of address space are not free again",
        grown >> 20
    );
}
