use proptest::prelude::*;

use super::*;

fn everything() -> Faults {
    Faults {
        loss: 0.1,
        burst: 0,
        duplicate: 0.05,
        reorder: Reorder {
            probability: 0.2,
            displacement: 4,
            patience: Duration::from_micros(700),
        },
        delay: Delay { fixed: Duration::from_micros(20), jitter: Duration::from_micros(50) },
        outages: Vec::new(),
    }
}

fn injector(faults: Faults, seed: u64) -> FaultInjector {
    injector_at(faults, seed, 0)
}

fn injector_at(faults: Faults, seed: u64, stream: u64) -> FaultInjector {
    FaultInjector::new(faults, seed, stream).expect("sensible faults")
}

fn decisions(faults: Faults, seed: u64, stream: u64, frames: u64) -> Vec<Decision> {
    let mut injector = injector_at(faults, seed, stream);
    (0..frames).map(|number| injector.decide(0, number)).collect()
}

/// Sends frames number `0..` at the given times and removes them when due. Returns `(time, number)`
/// of all frames that left.
fn run(line: &mut Line, times: &[u64]) -> Vec<(u64, u64)> {
    let mut out = Vec::new();
    let drain = |line: &mut Line, until: u64, out: &mut Vec<(u64, u64)>| {
        while let Some(due) = line.next_due().filter(|due| *due <= until) {
            let before = out.len();
            while let Some(frame) = line.front(due) {
                out.push((due, u64::from_be_bytes(frame.try_into().unwrap())));
                line.advance();
            }
            assert!(out.len() > before, "`next_due` promised a frame at {due}");
        }
    };
    for (number, time) in times.iter().enumerate() {
        drain(line, *time, &mut out);
        line.admit(*time, &(number as u64).to_be_bytes());
    }
    drain(line, u64::MAX, &mut out);
    assert!(line.is_empty());
    out
}

#[test]
fn a_seed_determines_all_faults() {
    let first = decisions(everything(), 7, 3, 2_000);
    assert_eq!(first, decisions(everything(), 7, 3, 2_000));
    assert_ne!(first, decisions(everything(), 8, 3, 2_000), "another seed");
    assert_ne!(first, decisions(everything(), 7, 4, 2_000), "another stream");
}

/// Pinned, because a recorded seed must replay in later versions.
#[test]
fn a_recorded_seed_still_replays() {
    let decisions = decisions(everything(), 42, 1, 40);
    let count = |copies: usize| -> Vec<usize> {
        (0..40).filter(|number| decisions[*number].copies().len() == copies).collect()
    };
    assert_eq!((count(0), count(2)), (LOST_UNDER_SEED_42.to_vec(), DOUBLED_UNDER_SEED_42.to_vec()));
}
const LOST_UNDER_SEED_42: &[usize] = &[8, 11];
const DOUBLED_UNDER_SEED_42: &[usize] = &[10, 19, 34, 38];

#[test]
fn a_decision_does_not_depend_on_earlier_decisions() {
    let in_order = decisions(everything(), 1, 0, 500);
    let mut injector = injector(everything(), 1);
    for number in (0..500).rev() {
        assert_eq!(injector.decide(0, number), in_order[usize::try_from(number).unwrap()]);
    }
}

#[test]
fn kinds_of_faults_do_not_disturb_each_other() {
    let all = decisions(everything(), 5, 0, 3_000);
    let only_loss = Faults { loss: 0.1, ..Faults::default() };
    let more_loss = Faults { loss: 0.3, ..Faults::default() };
    let only_loss = decisions(only_loss, 5, 0, 3_000);
    let more_loss = decisions(more_loss, 5, 0, 3_000);
    for ((all, less), more) in all.iter().zip(&only_loss).zip(&more_loss) {
        assert_eq!(all.copies().is_empty(), less.copies().is_empty());
        assert!(!less.copies().is_empty() || more.copies().is_empty(), "lost more readily");
    }
}

#[test]
fn exempt_frames_do_not_change_the_decisions_on_others() {
    let all = decisions(everything(), 7, 3, 2_000);
    let chosen: BTreeSet<u64> = (0..2_000).filter(|number| number % 3 == 0).collect();
    let mut injector = injector_at(everything(), 7, 3).only(chosen.clone());
    for (number, decision) in (0..).zip(&all) {
        let now = injector.decide(0, number);
        if chosen.contains(&number) {
            assert_eq!(now, *decision);
        } else {
            assert_eq!((now.count, now.copies[0].overtaken_by), (1, 0));
        }
    }
    let injected = injector.statistics();
    assert!(injected.lost > 0 && injected.lost < 100, "{injected:?}");
}

#[test]
fn rates_are_those_configured() {
    let frames = 100_000_u32;
    let mut injector = injector(everything(), 99);
    for number in 0..u64::from(frames) {
        injector.decide(0, number);
    }
    let statistics = injector.statistics();
    assert_eq!(statistics.frames, u64::from(frames));
    let near = |count: u64, of: f64, probability: f64, what: &str| {
        let (mean, sigma) = (of * probability, (of * probability * (1.0 - probability)).sqrt());
        assert!(
            (count as f64 - mean).abs() < 5.0 * sigma,
            "{what}: {count}, expected {mean}±{sigma}"
        );
    };
    let alive = (statistics.frames - statistics.lost) as f64;
    near(statistics.lost, f64::from(frames), 0.1, "lost");
    near(statistics.duplicated, alive, 0.05, "duplicated");
    near(statistics.reordered, alive + statistics.duplicated as f64, 0.2, "reordered");
    assert_eq!(statistics.delayed, statistics.frames - statistics.lost + statistics.duplicated);
}

#[test]
fn certainty_and_impossibility_are_exact() {
    let always = Faults { loss: 1.0, ..Faults::default() };
    assert!(decisions(always, 1, 0, 5_000).iter().all(|decision| decision.copies().is_empty()));
    let twice = Faults { duplicate: 1.0, ..Faults::default() };
    assert!(decisions(twice, 1, 0, 5_000).iter().all(|decision| decision.copies().len() == 2));
    let clean = [Passage::default()];
    assert!(Faults::default().is_none());
    let untouched = decisions(Faults::default(), 1, 0, 5_000);
    assert!(untouched.iter().all(|decision| decision.copies() == clean));
    let held =
        Faults { reorder: Reorder { probability: 1.0, ..Reorder::default() }, ..Faults::default() };
    let drawn: Vec<u32> = decisions(held, 1, 0, 5_000)
        .iter()
        .map(|decision| decision.copies()[0].overtaken_by)
        .collect();
    assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&1), Some(&3)));
}

#[test]
fn invalid_faults_are_rejected_by_name() {
    let refuse = |faults: Faults| FaultInjector::new(faults, 0, 0).unwrap_err().to_string();
    for value in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        let message = refuse(Faults { loss: value, ..Faults::default() });
        assert!(message.contains("loss") && message.contains("between 0 and 1"), "{message}");
        assert!(refuse(Faults { duplicate: value, ..Faults::default() }).contains("duplication"));
        let reorder = Reorder { probability: value, ..Reorder::default() };
        assert!(refuse(Faults { reorder, ..Faults::default() }).contains("reordering"));
    }
    let reorder = Reorder { probability: 0.5, displacement: 0, ..Reorder::default() };
    assert!(refuse(Faults { reorder, ..Faults::default() }).contains("displacement"));
    assert!(refuse(Faults::straggler(Duration::MAX)).contains("delay"));
}

#[test]
fn an_outage_loses_everything_while_it_lasts() {
    let faults = Faults { outages: vec![100..200, 300..301], ..Faults::default() };
    let mut line = Line::new(injector(faults, 1));
    let times: Vec<u64> = (0..400).collect();
    let out: Vec<u64> = run(&mut line, &times).into_iter().map(|(_, number)| number).collect();
    let expected: Vec<u64> = (0..100).chain(200..300).chain(301..400).collect();
    assert_eq!(out, expected);
    assert_eq!((line.statistics().cut_off, line.statistics().lost), (101, 0));
}

#[test]
fn a_straggler_is_late_by_just_its_delay() {
    let mut line = Line::new(injector(Faults::straggler(Duration::from_nanos(500)), 1));
    assert_eq!(run(&mut line, &[0, 10, 2_000]), [(500, 0), (510, 1), (2_500, 2)]);
}

#[test]
fn a_held_back_frame_follows_its_overtakers_or_its_patience() {
    let reorder = Reorder { probability: 1.0, displacement: 1, patience: Duration::from_nanos(50) };
    let mut line = Line::new(injector(Faults { reorder, ..Faults::default() }, 1));
    // Each frame lets one pass: frame 0 continues after 1, and 1 after 2. No frame follows 2.
    assert_eq!(run(&mut line, &[0, 10, 20]), [(10, 0), (20, 1), (70, 2)]);
    // No frame follows in time.
    let mut line = Line::new(injector(Faults { reorder, ..Faults::default() }, 1));
    assert_eq!(run(&mut line, &[0, 100]), [(50, 0), (150, 1)]);
}

proptest! {
    /// For any faults, the frames that leave are those decided upon, never early, and out of order
    /// by at most the configured displacement.
    #[test]
    fn a_line_obeys_the_decisions(
        loss in 0.0..0.5_f64,
        duplicate in 0.0..0.5_f64,
        probability in 0.0..1.0_f64,
        displacement in 1..6_u32,
        patience in 0..2_000_u64,
        fixed in 0..1_000_u64,
        jitter in 0..1_000_u64,
        gaps in prop::collection::vec(0..300_u64, 1..200),
        seed: u64,
    ) {
        let faults = Faults {
            loss,
            burst: 0,
            duplicate,
            reorder: Reorder { probability, displacement, patience: Duration::from_nanos(patience) },
            delay: Delay { fixed: Duration::from_nanos(fixed), jitter: Duration::from_nanos(jitter) },
            outages: Vec::new(),
        };
        let times: Vec<u64> = gaps
            .iter()
            .scan(0, |time, gap| { *time += gap; Some(*time) })
            .collect();
        let decisions = decisions(faults.clone(), seed, 0, times.len() as u64);
        let mut line = Line::new(injector(faults.clone(), seed));
        let out = run(&mut line, &times);

        prop_assert_eq!(&out, &run(&mut Line::new(injector(faults, seed)), &times), "replayed");
        for (number, decision) in decisions.iter().enumerate() {
            let arrivals = out.iter().filter(|(_, came)| *came == number as u64);
            prop_assert_eq!(arrivals.clone().count(), decision.copies().len());
            let shortest = decision.copies().iter().map(|copy| copy.delay).min();
            for (time, _) in arrivals {
                prop_assert!(*time >= times[number] + shortest.unwrap_or(0), "early");
                prop_assert!(*time <= times.last().unwrap() + fixed + jitter + patience, "late");
            }
        }
        prop_assert!(out.is_sorted_by_key(|(time, _)| *time));
        for (position, (_, number)) in out.iter().enumerate() {
            // At most this many later frames leave earlier.
            let mut passed: Vec<u64> =
                out[..position].iter().map(|(_, other)| *other).filter(|other| other > number).collect();
            passed.sort_unstable();
            passed.dedup();
            prop_assert!(
                passed.last().is_none_or(|last| last - number <= u64::from(displacement)),
                "frame {} came behind {:?}", number, passed
            );
        }
    }
}

#[test]
fn bursts_have_the_configured_loss_and_length() {
    for (loss, burst) in [(0.01, 8), (0.2, 3), (0.5, 50)] {
        let faults = Faults { loss, burst, ..Faults::default() };
        let lost: Vec<bool> =
            decisions(faults, 5, 2, 400_000).iter().map(|it| it.copies().is_empty()).collect();
        let all = lost.iter().filter(|lost| **lost).count() as f64;
        let bursts = lost.windows(2).filter(|pair| pair[0] && !pair[1]).count() as f64;
        let (share, length) = (all / lost.len() as f64, all / bursts);
        assert!((share / loss - 1.0).abs() < 0.15, "{loss}, {burst}: {share}");
        assert!((length / f64::from(burst) - 1.0).abs() < 0.15, "{loss}, {burst}: {length}");
    }
}

#[test]
fn burst_loss_of_a_frame_depends_on_its_number() {
    let faults = Faults { loss: 0.3, burst: 4, ..Faults::default() };
    let all = decisions(faults.clone(), 5, 2, 1_000);
    let mut injector = injector_at(faults, 5, 2);
    for number in [0, 7, 8, 500, 20, 999, 3] {
        assert_eq!(injector.decide(0, number), all[number as usize]);
    }
}

#[test]
fn bursts_too_short_for_the_loss_are_refused() {
    let refuse = |loss, burst| {
        let faults = Faults { loss, burst, ..Faults::default() };
        FaultInjector::new(faults, 1, 0).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(refuse(0.75, 3), Ok(()));
    assert_eq!(refuse(1.0, 2), Ok(()));
    let error = "a loss of 0.78 needs bursts of at least 4 frames, not of 3";
    assert_eq!(refuse(0.78, 3), Err(error.into()));
}
