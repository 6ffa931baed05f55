//! Groups of several hosts with several ranks each, all in this process: ranks of a host share memory, and each host is a
//! worker of an embedded switch.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use half::bf16;
use half::slice::HalfFloatSliceExt as _;
use tributary_collective::memory::{self, Memory};
use tributary_collective::{
    Call, Communicator, ElementType, Error, Group, GroupSwitch, Members, Ranks, Settings, Values,
    tunnels,
};

use super::common::{TIMEOUT, is_average, lend, ones, reduce, reduce_all, wait};

/// Runs `work` at each rank of hosts with so many ranks, and returns what each rank returned.
fn group<T: Send>(
    settings: &str,
    hosts: &[u16],
    timeout: Duration,
    work: impl Fn(u16, &dyn Group) -> T + Sync,
) -> Vec<T> {
    let settings = Settings::complete(settings, Ranks::of_one_host(hosts.len()), TIMEOUT).unwrap();
    let needed = settings.threads().unwrap().tunnels();
    let mut next = 0;
    let members = hosts.iter().map(|ranks| {
        next += ranks;
        (next - ranks..next).collect::<Vec<_>>()
    });
    let members: Vec<Vec<u16>> = members.collect();
    let address = IpAddr::from(Ipv4Addr::LOCALHOST);
    let tunnels: Vec<_> = (0..hosts.len())
        .map(|member| tunnels::endpoint(address, if member == 0 { 0 } else { needed }).unwrap())
        .collect();
    let ends: Vec<_> = tunnels.iter().map(|own| tunnels::addresses(own).unwrap()).collect();
    let described = Members::new(members.clone()).unwrap();
    let mut switch = GroupSwitch::start(settings, &described, address, &ends).unwrap();
    let description = switch.description().clone();
    let all = Barrier::new(next.into());
    let run = |rank, group: &dyn Group| {
        group.set_timeout(timeout);
        let result = work(rank, group);
        all.wait();
        group.close();
        result
    };
    let results = thread::scope(|scope| {
        let run = &run;
        let mut threads = Vec::new();
        for ((member, ranks), tunnels) in (0..).zip(&members).zip(tunnels) {
            let own = (member == 0).then_some(&mut switch);
            let above = Communicator::join(&description, member, tunnels, own).unwrap();
            if ranks.len() == 1 {
                threads.push(scope.spawn(move || run(ranks[0], &above)));
                continue;
            }
            let memory = Memory::of_member(Arc::new(above)).unwrap();
            let (text, count) = (memory.description(), ranks.len());
            let first = memory::Communicator::first(memory, count, timeout).unwrap();
            threads.push(scope.spawn(move || run(ranks[0], &first)));
            for (at, rank) in ranks.iter().enumerate().skip(1) {
                let other = memory::Communicator::join(&text, at, count, timeout).unwrap();
                threads.push(scope.spawn(move || run(*rank, &other)));
            }
        }
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    drop(switch);
    results
}

fn announce(operation: &str) -> Call {
    Call::Announce { operation: operation.into(), elements: 0, element: String::new() }
}

/// An integer, whose sums over a few ranks are exact in any order.
fn value(rank: u16, call: usize, at: usize) -> f32 {
    ((at * 31 + call * 17 + usize::from(rank) * 7) % 2003) as f32 - 1000.0
}

#[test]
fn overlapping_sums_of_all_hosts_are_exact_and_the_same_at_all_ranks() {
    let sizes = [1, 7, 2_048, 9_999, 65_536, 65_537, 200_003];
    for (settings, hosts) in [
        ("protocol = \"p4inc\"", &[2, 3][..]),
        ("protocol = \"switchml\"", &[3, 1, 2]),
        ("protocol = \"atp\"", &[2, 2]),
        ("protocol = \"esa\"\nfaults.loss = 0.01", &[1, 4, 2]),
    ] {
        let ranks = hosts.iter().sum::<u16>();
        let sums = group(settings, hosts, TIMEOUT, |rank, group| {
            reduce_all(group, &sizes, |call, at| value(rank, call, at))
        });
        for (call, &size) in sizes.iter().enumerate() {
            for at in 0..size {
                let exact: f32 = (0..ranks).map(|rank| value(rank, call, at)).sum();
                let exact = if is_average(call) { exact / f32::from(ranks) } else { exact };
                for (rank, own) in sums.iter().enumerate() {
                    assert_eq!(own[call][at], exact, "{settings} {rank} {call} {at}");
                }
            }
        }
    }
}

/// What a host's devices have added is at its first rank, and only there.
#[test]
fn sums_of_devices_are_added_to_those_of_other_hosts() {
    for (settings, hosts) in [
        ("protocol = \"p4inc\"", &[2, 3][..]),
        ("protocol = \"switchml\"", &[3, 1, 2]),
        // The values stay until all hosts have agreed.
        ("protocol = \"p4inc\"\ngroup.nonfinite = \"raise\"", &[1, 2]),
        ("protocol = \"esa\"\nfaults.loss = 0.01", &[2, 2]),
    ] {
        let ranks = hosts.iter().sum::<u16>();
        let firsts: Vec<u16> = hosts
            .iter()
            .scan(0, |next, ranks| Some(std::mem::replace(next, *next + ranks)))
            .collect();
        group(settings, hosts, TIMEOUT, |rank, group| {
            for (call, size) in [1, 7, 65_537, 200_003, 2_048].into_iter().enumerate() {
                let is_first = firsts.contains(&rank);
                let mut values: Vec<f32> = (0..size)
                    .map(|at| if is_first { value(rank, call, at) } else { f32::NAN })
                    .collect();
                let call_of = |values| match call {
                    // Between them, sums to which all ranks contribute.
                    4 => Call::Reduce { values, average: true, layer: None },
                    _ => Call::ReduceHosts { values, average: call == 1, layer: None },
                };
                if call == 4 {
                    values.fill(f32::from(rank));
                }
                assert_eq!(wait(group, call_of(Values::Single(lend(&mut values)))), Ok(()));
                for (at, sum) in values.iter().enumerate() {
                    let exact = match call {
                        4 => (0..ranks).map(f32::from).sum(),
                        _ => firsts.iter().map(|rank| value(*rank, call, at)).sum::<f32>(),
                    };
                    let exact =
                        if call == 1 || call == 4 { exact / f32::from(ranks) } else { exact };
                    assert_eq!(*sum, exact, "{settings} {rank} {call} {at}");
                }
            }
        });
    }
}

#[test]
fn ranks_of_a_host_agree_whether_their_devices_have_added() {
    let errors = group("", &[2, 2], TIMEOUT, |rank, group| {
        let values = Values::Single(vec![1.0; 30_000].into());
        let call = match rank {
            3 => Call::ReduceHosts { values, average: false, layer: None },
            _ => reduce(values, false),
        };
        wait(group, call).unwrap_err().to_string()
    });
    for text in errors {
        let expected = "rank 2 calls all_reduce (SUM) of 30000 × float32, rank 3 calls all_reduce (SUM of hosts)";
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn short_floats_are_summed_as_wide_ones() {
    group("", &[2, 1], TIMEOUT, |rank, group| {
        for (size, average) in [(7, false), (9_001, true), (200_003, false)] {
            let own: Vec<f32> = (0..size).map(|at| value(rank, 0, at)).collect();
            let mut brain: Vec<bf16> = own.iter().map(|value| bf16::from_f32(*value)).collect();
            let bits = lend(brain[..].reinterpret_cast_mut());
            let call = reduce(Values::Short(bits, ElementType::Bf16), average);
            assert_eq!(wait(group, call), Ok(()));
            for (at, sum) in brain.iter().enumerate() {
                let value = |rank| bf16::from_f32(value(rank, 0, at)).to_f32();
                let exact: f32 = (0..3).map(value).sum();
                let exact = if average { exact / 3.0 } else { exact };
                assert_eq!(*sum, bf16::from_f32(exact), "{at}");
            }
        }
    });
}

#[test]
fn infinity_and_nan_are_added_as_floats() {
    group("", &[2, 2], TIMEOUT, |rank, group| {
        let mut values = vec![1.0; 30_000];
        match rank {
            1 => values[5] = f32::INFINITY,
            2 => values[29_999] = f32::NAN,
            _ => {}
        }
        assert_eq!(wait(group, reduce(Values::Single(lend(&mut values)), false)), Ok(()));
        assert_eq!((values[4], values[5]), (4.0, f32::INFINITY));
        assert!(values[29_999].is_nan());
    });
}

#[test]
fn what_is_refused_leaves_the_values_and_the_group() {
    group("group.nonfinite = \"raise\"", &[2, 3], TIMEOUT, |rank, group| {
        for elements in [10, 30_000] {
            let mut values = vec![2.0; elements];
            if rank == 3 {
                values[7] = f32::NAN;
            }
            let before = values.clone();
            let error = wait(group, reduce(Values::Single(lend(&mut values)), false)).unwrap_err();
            let text = error.to_string();
            assert!(matches!(error, Error::NotFinite { .. }), "{text}");
            assert!(text.contains("ranks 2–4: value 7 is NaN"), "{text}");
            let bits = |values: &[f32]| values.iter().map(|it| it.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&values), bits(&before));
            assert_eq!(wait(group, ones(elements)), Ok(()));
        }
    });
}

/// The texts of the errors of all ranks, of which those of `own` have called something else.
fn mismatch(own: &'static [u16]) -> Vec<String> {
    group("", &[2, 2], TIMEOUT, |rank, group| {
        assert_eq!(wait(group, announce("barrier")), Ok(()));
        let call = if own.contains(&rank) { announce("broadcast") } else { ones(100) };
        let error = wait(group, call).unwrap_err();
        assert_eq!(wait(group, ones(1)), Err(error.clone()));
        assert_eq!(group.failure().wait(TIMEOUT), Some(Err(error.clone())));
        error.to_string()
    })
}

#[test]
fn hosts_that_call_different_things_are_named() {
    for text in mismatch(&[2, 3]) {
        let expected = "call 1 differs between ranks: ranks 0 and 1 call all_reduce (SUM) of 100 × float32, ranks 2 \
                        and 3 call broadcast";
        assert!(text.starts_with(expected), "{text}");
    }
}

#[test]
fn ranks_of_a_host_that_call_different_things_are_named_at_all_hosts() {
    for text in mismatch(&[3]) {
        let expected = "rank 2 calls all_reduce (SUM) of 100 × float32, rank 3 calls broadcast";
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn a_rank_that_is_gone_is_named_at_all_hosts() {
    // The first rank of a host, and another one.
    for gone in [2, 3] {
        let errors = group("", &[2, 2], TIMEOUT, |rank, group| {
            assert_eq!(wait(group, ones(1000)), Ok(()));
            if rank == gone {
                group.abort();
                return None;
            }
            let begin = Instant::now();
            let error = wait(group, ones(1000)).unwrap_err();
            assert!(begin.elapsed() < Duration::from_secs(10), "{error}");
            Some(error.to_string())
        });
        for text in errors.into_iter().flatten() {
            assert!(text.contains(&format!("rank {gone} gave up: it was aborted")), "{text}");
        }
    }
}

#[test]
fn a_first_rank_that_aborts_does_not_wait_for_other_hosts() {
    let done = Barrier::new(4);
    group("", &[2, 2], TIMEOUT, |rank, group| {
        if rank < 2 {
            // This host makes no call.
            done.wait();
            let Some(Err(error)) = group.failure().wait(TIMEOUT) else { panic!("the group fails") };
            assert!(error.to_string().contains("rank 2 gave up"), "{error}");
            return;
        }
        let mut memory = vec![vec![1.0_f32; 30_000]; 20];
        let begin = |values: &mut Vec<f32>| group.call(reduce(Values::Single(lend(values)), false));
        let calls: Vec<_> = memory.iter_mut().map(begin).collect();
        std::thread::sleep(Duration::from_millis(300));
        if rank == 2 {
            let begin = Instant::now();
            group.abort();
            assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
        }
        for call in calls {
            assert!(call.wait(TIMEOUT).expect("in time").is_err());
        }
        done.wait();
    });
}

#[test]
fn ranks_that_are_late_are_named_at_all_hosts() {
    let timeout = Duration::from_millis(1500);
    let all = "some of ranks 2 and 3 have not made call 0";
    // From the other host, one cannot tell which rank of a host is late.
    let (one, both) = ("rank 3 has not made call 0", "ranks 2 and 3 have not made call 0");
    for (late, named) in [(&[3][..], one), (&[2, 3], both)] {
        let errors = group("", &[2, 2], timeout, |rank, group| {
            if late.contains(&rank) {
                let Some(Err(error)) = group.failure().wait(TIMEOUT) else {
                    panic!("the group fails")
                };
                return error.to_string();
            }
            wait(group, ones(1000)).unwrap_err().to_string()
        });
        for text in errors {
            assert!(text.contains(named) || text.contains(all), "{text}");
        }
    }
}

#[test]
fn a_rank_that_left_early_is_named() {
    let errors = group("", &[2, 2], TIMEOUT, |rank, group| {
        if rank == 3 {
            group.close();
            return None;
        }
        Some(wait(group, ones(10)).unwrap_err().to_string())
    });
    for text in errors.into_iter().flatten() {
        assert!(text.contains("rank 3 has left the group after 0 calls"), "{text}");
    }
}
