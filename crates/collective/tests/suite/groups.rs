//! Groups of ranks, each a thread with its own communicator; all but the first over UDP.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use half::{bf16, f16};
use tributary_collective::{
    Call, Collective, Communicator, Description, ElementType, Error, Group as _, GroupSwitch,
    Members, Ranks, Settings, Values, What, tunnels,
};

use super::common::{
    self, TIMEOUT, check_late, leave_after_a_sum, lend, wait, wait_for_a_late_rank,
};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Runs `work` at each rank of a group, and returns what each rank returned. The group must leave no
/// aggregator in use if all ranks leave in order.
fn group<T: Send>(
    settings: &str,
    ranks: u16,
    work: impl Fn(u16, &mut Communicator) -> T + Sync,
) -> Vec<T> {
    group_at(LOOPBACK, settings, ranks, work)
}

/// The same with tunnels at an address.
fn group_at<T: Send>(
    address: IpAddr,
    settings: &str,
    ranks: u16,
    work: impl Fn(u16, &mut Communicator) -> T + Sync,
) -> Vec<T> {
    let settings = Settings::complete(settings, Ranks::of_one_host(ranks.into()), TIMEOUT).unwrap();
    let needed = settings.threads().unwrap().tunnels();
    // The first rank is in the process of the switch.
    let tunnels = |rank| if rank == 0 { 0 } else { needed };
    let tunnels: Vec<_> =
        (0..ranks).map(|rank| tunnels::endpoint(address, tunnels(rank)).unwrap()).collect();
    let addresses: Vec<_> = tunnels.iter().map(|own| tunnels::addresses(own).unwrap()).collect();
    let members = Members::each_alone(ranks);
    let mut switch = GroupSwitch::start(settings, &members, address, &addresses).unwrap();
    let text = switch.description().to_text();
    let barrier = Barrier::new(ranks.into());
    let results = thread::scope(|scope| {
        let (text, work, barrier) = (&text, &work, &barrier);
        let mut own = Some(&mut switch);
        let threads: Vec<_> = (0..)
            .zip(tunnels)
            .map(|(rank, tunnels)| {
                let own = if rank == 0 { own.take() } else { None };
                scope.spawn(move || {
                    let description = Description::parse(text).unwrap();
                    let mut communicator =
                        Communicator::join(&description, rank, tunnels, own).unwrap();
                    let result = catch_unwind(AssertUnwindSafe(|| work(rank, &mut communicator)));
                    barrier.wait();
                    communicator.close();
                    result.unwrap_or_else(|panic| resume_unwind(panic))
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    drop(switch);
    results
}

fn reduce(values: Vec<f32>) -> Call {
    common::reduce(Values::Single(values.into()), false)
}

/// Rank `rank`'s values in call `call`: magnitudes differ between calls, not much between ranks.
fn input(rank: u16, call: usize, elements: usize) -> Vec<f32> {
    let magnitude = [1.0, 1e-6, 300.0, 1e9, 1e-30][call % 5];
    (0..elements)
        .map(|at| {
            let hash =
                (at as u64 * 2_654_435_761 + u64::from(rank) * 40_503 + call as u64) % 10_007;
            magnitude * (hash as f32 / 10_007.0 - 0.5)
        })
        .collect()
}

/// The error of each sum is within what fixed point permits: half a unit a rank, where the greatest value
/// takes all bits but the sign and those that the number of ranks needs.
fn check(sums: &[f32], call: usize, ranks: u16) {
    let elements = sums.len();
    let inputs: Vec<_> = (0..ranks).map(|rank| input(rank, call, elements)).collect();
    let greatest = inputs.iter().flatten().fold(0.0_f64, |most, v| most.max(f64::from(v.abs())));
    for (at, sum) in sums.iter().enumerate() {
        let exact: f64 = inputs.iter().map(|own| f64::from(own[at])).sum();
        let error = (f64::from(*sum) - exact).abs();
        // The scale is a power of two, and the result is an `f32`.
        let unit = 4.0 * greatest * f64::from(ranks) / f64::from(i32::MAX);
        let unit = unit.max(2.0_f64.powi(-126));
        let bound = 0.5 * unit * f64::from(ranks) + exact.abs() * 2.0_f64.powi(-24);
        assert!(error <= bound, "call {call}, value {at}: {sum} for {exact}, bound {bound}");
    }
}

#[test]
fn overlapping_sums_are_exact_in_fixed_point_and_the_same_at_all_ranks() {
    let settings = [
        "",
        "protocol = \"atp\"\n",
        "protocol = \"esa\"\n",
        "protocol = \"switchml\"\n",
        "[faults]\nloss = 0.05\nreorder = 0.02\nduplicate = 0.02\n",
        "protocol = \"esa\"\n[faults]\nloss = 0.05\n",
    ];
    for settings in settings {
        for ranks in [2, 5] {
            let elements = 10_000;
            let sums = group(settings, ranks, |rank, communicator| {
                let mut memory: Vec<_> = (0..15).map(|call| input(rank, call, elements)).collect();
                let begin = |values: &mut Vec<f32>| {
                    let values = Values::Single(lend(values));
                    communicator.call(Call::Reduce { values, average: false, layer: Some((1, 3)) })
                };
                let calls: Vec<_> = memory.iter_mut().map(begin).collect();
                for call in calls {
                    assert_eq!(call.wait(TIMEOUT).expect("in time"), Ok(()), "{settings}");
                }
                let counters = communicator.counters();
                assert_eq!((counters.begun, counters.done, counters.values), (15, 15, 150_000));
                memory
            });
            for own in &sums {
                assert!(own == &sums[0], "{settings}");
            }
            sums[0].iter().enumerate().for_each(|(call, sums)| check(sums, call, ranks));
        }
    }
}

/// The agent of ESA has a channel over TCP to each rank.
#[test]
fn ranks_meet_over_ipv6() {
    for settings in ["", "protocol = \"esa\"\n[faults]\nloss = 0.05\n"] {
        let sums = group_at(Ipv6Addr::LOCALHOST.into(), settings, 3, |rank, communicator| {
            let mut values = input(rank, 0, 10_000);
            let lent = Values::Single(lend(&mut values));
            let call = Call::Reduce { values: lent, average: false, layer: None };
            assert_eq!(wait(communicator, call), Ok(()), "{settings}");
            values
        });
        sums.iter().for_each(|sums| check(sums, 0, 3));
    }
}

/// Each of a switch's threads and each lane has its part of the packets.
#[test]
fn the_number_of_threads_changes_no_bit() {
    let (ranks, elements, calls) = (3, 70_001, 4);
    let cases = [
        "",
        "protocol = \"esa\"\n",
        "protocol = \"atp\"\n",
        "protocol = \"switchml\"\n",
        "[faults]\nloss = 0.05\nreorder = 0.02\nduplicate = 0.02\n",
        "protocol = \"esa\"\n[faults]\nloss = 0.05\n",
    ];
    for case in cases {
        let sums = |lanes: usize, threads: usize| {
            let settings =
                format!("{case}[job]\nthreads = {lanes}\n[group]\nswitch_threads = {threads}\n");
            let sums = group(&settings, ranks, |rank, communicator| {
                let mut memory: Vec<_> =
                    (0..calls).map(|call| input(rank, call, elements)).collect();
                let begin = |values: &mut Vec<f32>| {
                    let values = Values::Single(lend(values));
                    communicator.call(Call::Reduce { values, average: false, layer: None })
                };
                let calls: Vec<_> = memory.iter_mut().map(begin).collect();
                for call in calls {
                    assert_eq!(call.wait(TIMEOUT).expect("in time"), Ok(()), "{settings}");
                }
                memory
            });
            assert!(sums.iter().all(|own| *own == sums[0]), "{settings}");
            sums.into_iter().next().unwrap()
        };
        let plain = sums(1, 1);
        plain.iter().enumerate().for_each(|(call, sums)| check(sums, call, ranks));
        assert!(sums(3, 2) == plain, "{case}");
    }
}

/// Sequence numbers are counted from zero again and again, also while packets are late.
#[test]
fn the_job_continues_in_other_runs() {
    let (ranks, elements, calls) = (3, 10_000, 12);
    let faults = "[faults]\nloss = 0.03\nreorder = 0.05\nduplicate = 0.05\n";
    for protocol in ["p4inc", "switchml", "atp", "esa"] {
        for threads in [1, 2] {
            let common = format!(
                "protocol = {{ kind = \"{protocol}\", values_per_packet = 64 }}\n{faults}\
                 [job]\nthreads = {threads}\n[group]\nswitch_threads = 1\n"
            );
            let sums = |settings: &str| {
                group(settings, ranks, |rank, communicator| {
                    let mut memory: Vec<_> =
                        (0..calls).map(|call| input(rank, call, elements)).collect();
                    let begin = |values: &mut Vec<f32>| {
                        let values = Values::Single(lend(values));
                        communicator.call(Call::Reduce { values, average: false, layer: None })
                    };
                    let calls: Vec<_> = memory.iter_mut().map(begin).collect();
                    for call in calls {
                        assert_eq!(call.wait(TIMEOUT).expect("in time"), Ok(()), "{settings}");
                    }
                    (memory, communicator.counters().runs)
                })
            };
            let whole = sums(&common);
            // A call has 157 fragments in all lanes together.
            let parts = sums(&format!("{common}fragments_per_run = 200\n"));
            for ((whole, none), (parts, runs)) in whole.iter().zip(&parts) {
                assert_eq!((*none, *runs >= 3), (0, protocol != "esa"), "{protocol}: {runs} runs");
                assert!(whole == parts, "{protocol}");
            }
        }
    }
}

#[test]
fn short_floats_and_averages() {
    group("", 4, |rank, communicator| {
        let own: Vec<f32> =
            (0..3000).map(|at| (at as f32 - 1500.0) * f32::from(rank + 1)).collect();
        for round in 0..3 {
            let mut half: Vec<f16> = own.iter().map(|v| f16::from_f32(v / 64.0)).collect();
            let mut brain: Vec<bf16> = own.iter().map(|v| bf16::from_f32(*v)).collect();
            let mut single = own.clone();
            let exact = |at: usize| (at as f32 - 1500.0) * 10.0;
            let bits = lend(half::slice::HalfFloatSliceExt::reinterpret_cast_mut(&mut half[..]));
            let values = Values::Short(bits, ElementType::F16);
            let first = communicator.call(Call::Reduce { values, average: false, layer: None });
            let bits = lend(half::slice::HalfFloatSliceExt::reinterpret_cast_mut(&mut brain[..]));
            let values = Values::Short(bits, ElementType::Bf16);
            let second = communicator.call(Call::Reduce { values, average: true, layer: None });
            let values = Values::Single(lend(&mut single));
            let third = communicator.call(Call::Reduce { values, average: true, layer: None });
            for call in [first, second, third] {
                assert_eq!(call.wait(TIMEOUT).expect("in time"), Ok(()));
            }
            for at in 0..3000 {
                let near = |a: f32, b: f32, parts: f32| (a - b).abs() <= b.abs() / parts + 0.01;
                assert!(near(half[at].to_f32(), exact(at) / 64.0, 400.0), "{round} {at}");
                assert!(near(brain[at].to_f32(), exact(at) / 4.0, 60.0), "{round} {at}");
                assert!(near(single[at], exact(at) / 4.0, 1e6), "{round} {at}");
            }
        }
    });
}

#[test]
fn values_of_all_magnitudes_are_summed_without_overflow() {
    for settings in ["", "protocol = \"atp\"\n"] {
        group(settings, 3, |_, communicator| {
            for growth in [1.0_f32, 1e3, 1e12, 1e-12, 1e30] {
                let mut memory = vec![growth; 5000];
                let values = Values::Single(lend(&mut memory));
                let call = communicator.call(Call::Reduce { values, average: false, layer: None });
                assert_eq!(call.wait(TIMEOUT).expect("in time"), Ok(()));
                assert!((memory[17] - 3.0 * growth).abs() <= 1e-6 * growth, "{growth}");
            }
            assert_eq!(communicator.counters().worker.overflow_packets, 0);
        });
    }
}

/// They travel with the agreement.
#[test]
fn few_values_are_added_as_floats() {
    let sums = group("", 3, |rank, communicator| {
        let mut counted = 0;
        let mut all = Vec::new();
        for elements in [1, 2, 300, 339, 340] {
            let mut memory = vec![1e-20_f32; elements];
            memory[0] = 1e20 * f32::from(rank + 1);
            let values = Values::Single(lend(&mut memory));
            let call = communicator.call(Call::Reduce { values, average: true, layer: None });
            assert_eq!(call.wait(TIMEOUT).expect("in time"), Ok(()));
            assert!((memory[0] - 2e20).abs() < 1e14);
            let is_small = elements <= (2048 / 3 - 4) / 2;
            let exact = |value: &f32| (*value - 1e-20).abs() < 1e-26;
            assert!(memory[1..].iter().all(|value| exact(value) == is_small), "{elements}");
            counted += elements as u64;
            assert_eq!(communicator.counters().values, counted);
            all.extend(memory);
        }
        all
    });
    assert!(sums.iter().all(|own| *own == sums[0]));
}

#[test]
fn ranks_that_call_different_things_all_learn_of_it() {
    let cases: [fn(u16) -> Call; 3] = [
        |rank| reduce(vec![1.0; 100 + 5000 * usize::from(rank == 2)]),
        |rank| match rank {
            1 => Call::Announce {
                operation: "broadcast".into(),
                elements: 9,
                element: "int64".into(),
            },
            _ => reduce(vec![1.0; 100]),
        },
        |rank| Call::Reduce {
            values: match rank {
                0 => Values::Single(vec![1.0; 100].into()),
                _ => Values::Short(vec![0; 100].into(), ElementType::F16),
            },
            average: false,
            layer: None,
        },
    ];
    for make in cases {
        for warm in [false, true] {
            let errors = group("", 3, |rank, communicator| {
                if warm {
                    assert_eq!(wait(communicator, reduce(vec![1.0; 5100])), Ok(()));
                }
                let error = wait(communicator, make(rank)).unwrap_err();
                let after = wait(communicator, reduce(vec![1.0; 100])).unwrap_err();
                assert_eq!(error, after);
                error
            });
            assert!(matches!(errors[0], Error::Mismatch { .. }), "{}", errors[0]);
            assert!(errors.iter().all(|error| *error == errors[0]));
        }
    }
}

#[test]
fn what_is_not_finite_is_added_as_floats_or_refused() {
    let bad = |rank: u16, value: f32, elements: usize| {
        let mut values = vec![1.0; elements];
        values[7] = if rank == 1 { value } else { 2.0 };
        values
    };
    let cases = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
    for (value, elements) in cases.into_iter().flat_map(|value| [(value, 300), (value, 5000)]) {
        let errors = group("[group]\nnonfinite = \"raise\"\n", 3, |rank, communicator| {
            let error = wait(communicator, reduce(bad(rank, value, elements))).unwrap_err();
            // The group goes on.
            let mut values = vec![1.0; elements];
            let single = Values::Single(lend(&mut values));
            let call = Call::Reduce { values: single, average: false, layer: None };
            assert_eq!(wait(communicator, call), Ok(()));
            assert_eq!(values, vec![3.0; elements]);
            let again = wait(communicator, reduce(bad(rank, value, elements))).unwrap_err();
            assert!(matches!(again, Error::NotFinite { .. }), "{again}");
            error.to_string()
        });
        for error in errors {
            let start = format!("values are not finite in call 0, at rank 1: value 7 is {value} ");
            assert!(error.starts_with(&start), "{error}");
        }
        for protocol in ["p4inc", "esa"] {
            group(&format!("protocol = \"{protocol}\"\n"), 2, |rank, communicator| {
                for average in [false, true] {
                    let mut values = bad(rank, value, elements);
                    let single = Values::Single(lend(&mut values));
                    let call = Call::Reduce { values: single, average, layer: None };
                    assert_eq!(wait(communicator, call), Ok(()));
                    assert!(
                        values[7].to_bits() == value.to_bits()
                            || value.is_nan() && values[7].is_nan()
                    );
                    values.remove(7);
                    assert_eq!(values, vec![if average { 1.0 } else { 2.0 }; elements - 1]);
                }
            });
        }
    }
}

/// Of 16-bit types, too, and where the magnitudes do not fit into the first fragment of a call.
#[test]
fn every_part_of_a_long_tensor_has_its_scale() {
    let settings = [
        "",
        "protocol = { kind = \"p4inc\", values_per_packet = 64 }\n[faults]\nloss = 0.02\n",
        "protocol = { kind = \"esa\", values_per_packet = 64 }\n",
        "protocol = { kind = \"switchml\", values_per_packet = 64 }\njob.threads = 2\n",
    ];
    let elements = 40_000;
    // A layer's gradients are 10^-12, 1 or 10^12.
    let value = |rank: u16, at: usize| {
        let fraction = (at as u64 * 2_654_435_761 % 1009) as f32 / 1009.0;
        [1e-12, 1.0, 1e12][at / 10_240 % 3] * (0.5 + fraction) * f32::from(rank + 1)
    };
    for settings in settings {
        let sums = group(settings, 3, |rank, communicator| {
            let mut values: Vec<f32> = (0..elements).map(|at| value(rank, at)).collect();
            let mut short: Vec<bf16> = values.iter().map(|value| bf16::from_f32(*value)).collect();
            let lent = Values::Single(lend(&mut values));
            let first =
                communicator.call(Call::Reduce { values: lent, average: false, layer: None });
            let bits = lend(half::slice::HalfFloatSliceExt::reinterpret_cast_mut(&mut short[..]));
            let lent = Values::Short(bits, ElementType::Bf16);
            let second =
                communicator.call(Call::Reduce { values: lent, average: true, layer: None });
            for call in [first, second] {
                assert_eq!(call.wait(TIMEOUT).expect("in time"), Ok(()), "{settings}");
                assert_eq!(call.warning(), None);
            }
            assert_eq!(communicator.counters().worker.rounding.zeroed, 0);
            (values, short)
        });
        assert!(sums.iter().all(|own| *own == sums[0]), "{settings}");
        for (at, (sum, average)) in sums[0].0.iter().zip(&sums[0].1).enumerate() {
            let exact: f64 = (0..3).map(|rank| f64::from(value(rank, at))).sum();
            assert!((f64::from(*sum) - exact).abs() <= 1e-7 * exact, "{settings} {at}: {sum}");
            assert!((average.to_f64() - exact / 3.0).abs() <= 0.01 * exact, "{settings} {at}");
        }
    }
}

/// A value of 10^10, and many of 1 in the same packets.
#[test]
fn great_values_do_not_make_others_zero() {
    for (precision, error) in [("auto", 0.0), ("double", 0.0), ("single", 3.0)] {
        for protocol in ["p4inc", "atp"] {
            let settings =
                format!("protocol = \"{protocol}\"\ngroup.precision = \"{precision}\"\n");
            group(&settings, 3, |_, communicator| {
                let mut values = vec![1.0; 5_000];
                values[0] = 1e10;
                let lent = Values::Single(lend(&mut values));
                let call = Call::Reduce { values: lent, average: false, layer: None };
                assert_eq!(wait(communicator, call), Ok(()));
                assert_eq!(values[0], 3e10);
                assert_eq!((values[1], values[2_047]), (3.0 - error, 3.0 - error));
                assert_eq!(values[2_048], 3.0, "another packet");
                let zeroed = communicator.counters().worker.rounding.zeroed;
                assert_eq!(zeroed, if error == 0.0 { 0 } else { 2_047 });
            });
        }
    }
}

#[test]
fn a_rank_that_dies_leaves_or_is_late_is_named() {
    let (begin, barrier) = (Instant::now(), Barrier::new(3));
    let errors = group("", 3, |rank, communicator| {
        leave_after_a_sum((rank.into(), 2), communicator, &barrier, |group| group.abort())
    });
    let gone = "rank 2 gave up: it was aborted";
    assert_eq!(errors, [Some(gone.into()), Some(gone.into()), None]);
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());

    let errors = group("", 3, |rank, communicator| {
        leave_after_a_sum((rank.into(), 1), communicator, &barrier, |group| group.close())
    });
    let left = "rank 1 has left the group after 1 calls, and this rank made 2";
    assert_eq!(errors, [Some(left.into()), None, Some(left.into())]);

    let errors = group("", 3, |rank, communicator| {
        wait_for_a_late_rank(rank.into(), communicator, &barrier)
    });
    check_late(&errors);
}

#[test]
fn a_rank_that_leaves_with_pending_calls_ends_them_at_all_ranks() {
    let begin = Instant::now();
    let errors = group("", 2, |rank, communicator| {
        assert_eq!(wait(communicator, reduce(vec![1.0; 100])), Ok(()));
        if rank == 1 {
            std::thread::sleep(Duration::from_secs(8));
            return wait(communicator, reduce(vec![1.0; 100])).unwrap_err().to_string();
        }
        let call = communicator.call(reduce(vec![1.0; 100]));
        communicator.close();
        call.wait(Duration::ZERO).expect("it is over").unwrap_err().to_string()
    });
    assert_eq!(errors[0], "this rank has left the group");
    assert_eq!(errors[1], "rank 0 gave up: it left while calls were pending");
    assert!(begin.elapsed() < Duration::from_secs(25), "{:?}", begin.elapsed());
}

#[test]
fn callbacks_may_wait_for_later_calls() {
    group("", 2, |_, communicator| {
        let first = communicator.call(reduce(vec![1.0; 5000]));
        let second = communicator.call(reduce(vec![1.0; 5000]));
        let (sender, receiver) = std::sync::mpsc::channel();
        first.on_done(move |result| sender.send((result, second.wait(TIMEOUT))).unwrap());
        assert_eq!(receiver.recv_timeout(TIMEOUT), Ok((Ok(()), Some(Ok(())))));
    });
}

/// Ones beside a large value, at rank 1 only.
fn beside_a_large_value(rank: u16) -> Vec<f32> {
    let mut values = vec![if rank == 1 { 1.0 } else { 0.0 }; 5_000];
    values[0] = 1e10;
    values
}

#[test]
fn a_rank_whose_values_become_zero_is_warned_once() {
    let told = group("group.precision = \"single\"\n", 3, |rank, communicator| {
        let mut told = Vec::new();
        for elements in [5_000, 5_000, 4_000] {
            let mut values = beside_a_large_value(rank);
            values.truncate(elements);
            let call = communicator.call(reduce(values));
            assert_eq!(call.wait(TIMEOUT).expect("in time"), Ok(()));
            told.extend(call.warning().map(str::to_owned));
        }
        let counters = communicator.counters();
        // Those in the same packet.
        let lost = if rank == 1 { 3 * 2_047 } else { 0 };
        assert_eq!(counters.worker.rounding.zeroed, lost);
        assert_eq!(counters.underflows, if rank == 1 { 3 } else { 0 });
        told
    });
    assert_eq!(told.iter().map(Vec::len).collect::<Vec<_>>(), [0, 1, 0]);
    let text = &told[1][0];
    for part in [
        "rank 1, all_reduce (SUM) of 5000 × float32: ",
        "2 047 of 5 000 non-zero values (40.94 %) were smaller than half a unit",
        "magnitudes are 1e0 to 1e10, and values of up to 1.60e1 become zero",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_group_may_refuse_sums_that_lose_too_much_at_all_ranks_alike() {
    for protocol in ["p4inc", "esa"] {
        let settings = format!(
            "protocol = \"{protocol}\"\njob.on_underflow = \"fail\"\ngroup.precision = \"single\"\n"
        );
        let errors = group(&settings, 3, |rank, communicator| {
            let mut values = beside_a_large_value(rank);
            let lent = Values::Single(lend(&mut values));
            let call = Call::Reduce { values: lent, average: true, layer: Some((1, 3)) };
            let error = wait(communicator, call).unwrap_err();
            // Nothing was sent.
            assert_eq!(values, beside_a_large_value(rank));
            // What loses little is summed, and the group goes on.
            let mut few = vec![1.0; 5_000];
            few[..50].fill(1e-20);
            let lent = Values::Single(lend(&mut few));
            let call = Call::Reduce { values: lent, average: false, layer: None };
            assert_eq!(wait(communicator, call), Ok(()));
            assert_eq!((few[0], few[4_999]), (0.0, 3.0));
            let counters = communicator.counters();
            assert_eq!((counters.done, counters.underflows), (1, u64::from(rank == 1)));
            error
        });
        assert!(errors.iter().all(|error| *error == errors[0]), "{errors:?}");
        let text = errors[0].to_string();
        let expected = "fixed point would make non-zero values zero in call 0, all_reduce (AVG) of \
                        5000 × float32, bucket 2 of 3 from the input of the model: rank 1: 2047 of 5000 \
                        values from 1.0e0 to 1.0e10; values of up to ";
        assert!(text.starts_with(expected), "{text}");
    }
}

/// A client without the key of a group can list its job, but neither take part nor change it.
#[test]
fn strangers_take_no_part_in_a_group() {
    use tributary_access::Remote;
    use tributary_api::jobs::v1::{
        self, jobs_client::JobsClient, part::Role, take_request::Request,
    };
    use tributary_collective::description::Fabric;

    let settings = Settings::complete("", Ranks::of_one_host(2), TIMEOUT).unwrap();
    let needed = settings.threads().unwrap().tunnels();
    let tunnels = tunnels::endpoint(LOOPBACK, needed).unwrap();
    let ends = [Vec::new(), tunnels::addresses(&tunnels).unwrap()];
    let members = Members::each_alone(2);
    let mut switch = GroupSwitch::start(settings, &members, LOOPBACK, &ends).unwrap();
    let description = switch.description().clone();
    let first = Communicator::join(&description, 0, Vec::new(), Some(&mut switch)).unwrap();
    let second = Communicator::join(&description, 1, tunnels, None).unwrap();
    let Fabric::Embedded { controller, .. } = description.fabric else { panic!("it has a switch") };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let remote = Remote::new(&controller.to_string(), None).unwrap().unwrap();
        let mut client = JobsClient::new(remote.connect().await.unwrap());
        let job_id = description.job.into();
        let listed = client.list(v1::ListRequest {}).await.unwrap().into_inner();
        assert_eq!(listed.jobs.len(), 1);
        for key in [Vec::new(), vec![0; description.key.len()]] {
            let which = Some(v1::worker::Which::Worker(1));
            let role = Role::Worker(v1::Worker { job_id, key, which, ..v1::Worker::default() });
            let part = v1::Part { version: tributary_api::JOBS_VERSION, role: Some(role) };
            let first = v1::TakeRequest { request: Some(Request::Part(part)) };
            let refused = client.take(tokio_stream::iter([first])).await.unwrap_err();
            assert_eq!(refused.code(), tonic::Code::PermissionDenied, "{refused}");
        }
        let server = v1::Part {
            version: tributary_api::JOBS_VERSION,
            role: Some(Role::Server("w1".into())),
        };
        let first = v1::TakeRequest { request: Some(Request::Part(server)) };
        let refused = [
            client.take(tokio_stream::iter([first])).await.map(drop).unwrap_err(),
            client.release(v1::ReleaseRequest { job_id }).await.map(drop).unwrap_err(),
            client.admit(v1::AdmitRequest::default()).await.map(drop).unwrap_err(),
        ];
        for status in refused {
            assert_eq!(status.code(), tonic::Code::PermissionDenied, "{status}");
        }
    });
    // They are as they were.
    for _ in 0..3 {
        let calls = [&first, &second].map(|rank| rank.call(reduce(vec![1.0; 5000])));
        for call in calls {
            assert_eq!(call.wait(TIMEOUT).expect("in time"), Ok(()));
        }
    }
    thread::scope(|scope| {
        scope.spawn(|| second.close());
        first.close();
    });
    assert_eq!(switch.close().unwrap(), 0);
}

/// Sums of which each rank gets a part, and parts that all get, in turns and beside sums that all get.
#[test]
fn ranks_exchange_parts() {
    let settings = [
        "",
        "protocol = \"switchml\"\n",
        "[faults]\nloss = 0.05\nreorder = 0.02\nduplicate = 0.02\n",
        "protocol = \"switchml\"\n[faults]\nloss = 0.05\nreorder = 0.02\nduplicate = 0.02\n",
        "[job]\nthreads = 3\n[group]\nswitch_threads = 2\n",
    ];
    for settings in settings {
        for (ranks, each) in [(2_u16, 5_000), (3, 1), (5, 777)] {
            let all = usize::from(ranks) * each;
            let results = group(settings, ranks, |rank, communicator| {
                assert!(communicator.exchanges_parts());
                let (mut scattered, mut gathered, mut sums) = (Vec::new(), Vec::new(), Vec::new());
                for call in 0..4 {
                    scattered.push((input(rank, call, all), vec![0.0_f32; each]));
                    // Not whole words, and all bits.
                    let own = bytes(rank, call, each);
                    gathered.push((own, vec![0xee_u8; all]));
                    sums.push(input(rank, call, 300));
                }
                let mut calls = Vec::new();
                for call in 0..4 {
                    let (values, own) = &mut scattered[call];
                    let (values, own) = (Values::Single(lend(values)), Values::Single(lend(own)));
                    let what = What::ReduceScatter { values, own, average: call % 2 == 1 };
                    calls.push(collective(communicator, "scatter", each, what));
                    let (own, all) = &mut gathered[call];
                    // Its own part may be in its place already.
                    let own = match call % 2 {
                        0 => Some(lend(own)),
                        _ => {
                            let start = usize::from(rank) * each;
                            all[start..start + each].copy_from_slice(own);
                            None
                        }
                    };
                    let what = What::AllGather { own, all: lend(all) };
                    calls.push(collective(communicator, "gather", each, what));
                    let values = Values::Single(lend(&mut sums[call]));
                    calls.push(communicator.call(common::reduce(values, false)));
                }
                for call in calls {
                    assert_eq!(call.wait(TIMEOUT).expect("in time"), Ok(()), "{settings}");
                }
                (scattered, gathered, sums)
            });
            for (rank, (scattered, gathered, sums)) in (0..ranks).zip(&results) {
                assert!(sums == &results[0].2, "{settings}");
                for call in 0..4 {
                    let (values, own) = &scattered[call];
                    assert_eq!(*values, input(rank, call, all), "they are the caller's");
                    check_part(own, call, ranks, usize::from(rank) * each);
                    let expected: Vec<u8> =
                        (0..ranks).flat_map(|other| bytes(other, call, each)).collect();
                    assert!(gathered[call].1 == expected, "{settings}: rank {rank}, call {call}");
                }
            }
        }
    }
}

fn collective(
    communicator: &Communicator,
    operation: &str,
    each: usize,
    what: What,
) -> tributary_collective::Pending {
    let claim = (operation.to_owned(), each as u64, "in parts".to_owned());
    communicator.begin_collective(Collective { claim, what }).unwrap()
}

/// Bytes of a rank, which as integers could not be summed.
fn bytes(rank: u16, call: usize, count: usize) -> Vec<u8> {
    let byte = |at: usize| (at * 167 + usize::from(rank) * 59 + call * 31 + 0x7f) as u8;
    (0..count).map(byte).collect()
}

/// As [`check`], for a part of the sums, of which every other call is an average.
fn check_part(part: &[f32], call: usize, ranks: u16, start: usize) {
    let divisor = if call % 2 == 1 { f64::from(ranks) } else { 1.0 };
    let elements = part.len() * usize::from(ranks);
    let inputs: Vec<_> = (0..ranks).map(|rank| input(rank, call, elements)).collect();
    let greatest = inputs.iter().flatten().fold(0.0_f64, |most, v| most.max(f64::from(v.abs())));
    let unit = (4.0 * greatest * f64::from(ranks) / f64::from(i32::MAX)).max(2.0_f64.powi(-126));
    for (at, found) in part.iter().enumerate() {
        let exact: f64 = inputs.iter().map(|own| f64::from(own[start + at])).sum::<f64>() / divisor;
        let bound = 0.5 * unit * f64::from(ranks) / divisor + exact.abs() * 2.0_f64.powi(-23);
        let error = (f64::from(*found) - exact).abs();
        assert!(error <= bound, "call {call}, value {at}: {found} for {exact}, bound {bound}");
    }
}

/// Half precision, NaN and infinity, and what is refused.
#[test]
fn parts_of_short_floats_and_of_what_is_not_finite() {
    let each = 500;
    let results = group("", 3, |rank, communicator| {
        let value = |at: usize| bf16::from_f32(((at * 7 + usize::from(rank)) % 100) as f32);
        let mut values: Vec<u16> = (0..3 * each).map(|at| value(at).to_bits()).collect();
        values[each + 5] = bf16::INFINITY.to_bits();
        let mut own = vec![0_u16; each];
        let short = |bits| Values::Short(bits, ElementType::Bf16);
        let what = What::ReduceScatter {
            values: short(lend(&mut values)),
            own: short(lend(&mut own)),
            average: false,
        };
        let call = collective(communicator, "scatter", each, what);
        assert_eq!(call.wait(TIMEOUT).expect("in time"), Ok(()));
        own.into_iter().map(|bits| bf16::from_bits(bits).to_f32()).collect::<Vec<_>>()
    });
    for (rank, own) in results.iter().enumerate() {
        for (at, found) in own.iter().enumerate() {
            let place = rank * each + at;
            let exact: usize = (0..3).map(|other| (place * 7 + other) % 100).sum();
            let expected = match place {
                _ if place == each + 5 => f32::INFINITY,
                _ => bf16::from_f32(exact as f32).to_f32(),
            };
            assert_eq!(*found, expected, "rank {rank}, value {at}");
        }
    }
    let errors = group("[group]\nnonfinite = \"raise\"\n", 2, |rank, communicator| {
        let mut values = vec![1.0_f32; 2 * each];
        if rank == 1 {
            values[each + 7] = f32::NAN;
        }
        let what = What::ReduceScatter {
            values: Values::Single(values.into()),
            own: Values::Single(vec![0.0; each].into()),
            average: false,
        };
        let call = collective(communicator, "scatter", each, what);
        call.wait(TIMEOUT).expect("in time").unwrap_err().to_string()
    });
    assert!(errors.iter().all(|error| error.contains("rank 1: value 507 is NaN")), "{errors:?}");
}

/// With a server, which needs all values, there are no parts.
#[test]
fn protocols_with_servers_exchange_no_parts() {
    for protocol in ["atp", "esa"] {
        group(&format!("protocol = \"{protocol}\"\n"), 2, |_, communicator| {
            assert!(!communicator.exchanges_parts());
            let what = What::AllGather { own: None, all: vec![0; 20].into() };
            let claim = (String::new(), 10, String::new());
            assert!(communicator.begin_collective(Collective { claim, what }).is_err());
        });
    }
}
