//! The traffic manager around a program: queues, replication, second passes, the CPU port.

use crate::common::*;
use proptest::prelude::*;
use tributary_p4runtime::google::rpc::Code;
use tributary_p4runtime::p4::v1::update;
use tributary_switch::{CPU_PORT, Switch, SwitchConfig};

fn traffic() -> Switch {
    switch(TRAFFIC, SwitchConfig::default())
}

#[test]
fn without_a_program_everything_is_dropped() {
    let mut switch = Switch::new(SwitchConfig { ports: vec![1, 2], ..Default::default() });
    switch.receive(0, 1, &probe(UNICAST, 0, 2, b"x"));
    assert_eq!(transmit(&mut switch, 0, 2), None);
    assert_eq!(switch.statistics().no_pipeline, 1);
    assert_eq!(switch.write(&[]).unwrap_err().code, Code::FailedPrecondition);
    assert_eq!(switch.read(&[]).unwrap_err().code, Code::FailedPrecondition);
}

#[test]
fn a_packet_crosses_and_sees_queue_depth_and_time() {
    let mut switch = traffic();
    for name in [b"a", b"b", b"c"] {
        switch.receive(100, 1, &probe(UNICAST, 0, 2, name));
    }
    assert_eq!(switch.queue_depth(2), 3);
    let out: Vec<Seen> =
        (0..3).map(|i| seen(&transmit(&mut switch, 150 + i, 2).unwrap())).collect();
    assert_eq!(transmit(&mut switch, 200, 2), None);
    for (i, seen) in out.iter().enumerate() {
        let i = i as u32;
        // enq_qdepth: packets in the queue before it; deq_qdepth: packets left behind it.
        assert_eq!((seen.enq_qdepth, seen.deq_qdepth), (i, 2 - i));
        assert_eq!(seen.deq_timedelta, 50 + i);
        assert_eq!((seen.egress_instance, seen.rid, seen.ingress_port), (0, 0, 1));
    }
    assert_eq!(out.iter().map(|s| s.name[0]).collect::<Vec<_>>(), b"abc");
    let port = switch.port_statistics(2).unwrap();
    assert_eq!((port.sent, port.max_depth, port.depth), (3, 3, 0));
    assert_eq!(switch.port_statistics(1).unwrap().received, 3);
}

#[test]
fn a_full_queue_drops_and_counts_and_leaves_others_alone() {
    let mut switch = switch(TRAFFIC, SwitchConfig { queue_limit: 5, ..Default::default() });
    for i in 0..9 {
        switch.receive(0, 1, &probe(UNICAST, 0, 2, &[i]));
    }
    switch.receive(0, 1, &probe(UNICAST, 0, 3, b"x"));
    let names: Vec<u8> =
        std::iter::from_fn(|| transmit(&mut switch, 0, 2)).map(|f| seen(&f).name[0]).collect();
    assert_eq!(names, [0, 1, 2, 3, 4]);
    let port = switch.port_statistics(2).unwrap();
    assert_eq!((port.queue_drops, port.max_depth), (4, 5));
    assert_eq!(switch.port_statistics(3).unwrap().queue_drops, 0);
    assert!(transmit(&mut switch, 0, 3).is_some());
}

#[test]
fn packets_for_unknown_ports_and_groups_are_counted() {
    let mut switch = traffic();
    switch.receive(0, 1, &probe(UNICAST, 0, 99, b""));
    switch.receive(0, 1, &probe(UNICAST, 0, 511, b""));
    switch.receive(0, 1, &probe(MULTICAST, 0, 7, b""));
    switch.receive(0, 1, &probe(DROP, 0, 0, b""));
    let statistics = switch.statistics();
    assert_eq!((statistics.no_such_port, statistics.no_such_group), (1, 1));
    assert_eq!(statistics.ingress_drops, 2, "port 511 means drop");
}

#[test]
fn a_multicast_packet_goes_to_every_member_with_its_instance() {
    let mut switch = traffic();
    write(&mut switch, insert(group(5, &[(2, 10), (3, 11), (2, 12), (4, 0)]))).unwrap();
    switch.receive(0, 1, &probe(MULTICAST, 0, 5, b"m"));
    let mut copies = Vec::new();
    for port in 1..=4 {
        while let Some(frame) = transmit(&mut switch, 0, port) {
            let seen = seen(&frame);
            assert_eq!((seen.egress_instance, seen.name.as_slice()), (5, &b"m"[..]));
            copies.push((port, seen.rid));
        }
    }
    assert_eq!(copies, [(2, 10), (2, 12), (3, 11), (4, 0)]);

    // A modified group has another set of members, a deleted one none.
    write(&mut switch, modify(group(5, &[(1, 1)]))).unwrap();
    switch.receive(0, 1, &probe(MULTICAST, 0, 5, b"m"));
    assert_eq!((switch.queue_depth(1), switch.queue_depth(2)), (1, 0));
    write(&mut switch, delete(group(5, &[]))).unwrap();
    switch.receive(0, 1, &probe(MULTICAST, 0, 5, b"m"));
    assert_eq!(switch.statistics().no_such_group, 1);
}

#[test]
fn a_full_queue_costs_its_own_copy_only() {
    let mut switch = switch(TRAFFIC, SwitchConfig { queue_limit: 1, ..Default::default() });
    write(&mut switch, insert(group(5, &[(2, 0), (3, 0)]))).unwrap();
    switch.receive(0, 1, &probe(UNICAST, 0, 2, b"first"));
    switch.receive(0, 1, &probe(MULTICAST, 0, 5, b"m"));
    assert_eq!(seen(&transmit(&mut switch, 0, 2).unwrap()).name, b"first");
    assert_eq!(seen(&transmit(&mut switch, 0, 3).unwrap()).name, b"m");
    assert_eq!(switch.port_statistics(2).unwrap().queue_drops, 1);
}

#[test]
fn groups_are_checked_and_a_refused_update_changes_nothing() {
    let mut switch = traffic();
    write(&mut switch, insert(group(5, &[(2, 0)]))).unwrap();
    let before = everything(&switch);
    let cases = [
        (insert(group(5, &[(3, 0)])), Code::AlreadyExists),
        (modify(group(6, &[(3, 0)])), Code::NotFound),
        (delete(group(6, &[])), Code::NotFound),
        (insert(group(0, &[(3, 0)])), Code::InvalidArgument),
        (insert(group(65536, &[(3, 0)])), Code::OutOfRange),
        (insert(group(7, &[(3, 0), (3, 0)])), Code::InvalidArgument),
        (modify(group(5, &[(9, 0)])), Code::InvalidArgument),
        (modify(group(5, &[(3, 65536)])), Code::InvalidArgument),
        (update(update::Type::Unspecified, group(5, &[])), Code::InvalidArgument),
    ];
    for (update, code) in cases {
        assert_eq!(write(&mut switch, update.clone()).unwrap_err().code, code, "{update:?}");
        assert_eq!(everything(&switch), before);
    }
    assert_eq!(read(&switch, group(5, &[])), [group(5, &[(2, 0)])]);
    assert_eq!(switch.read(&[group(6, &[])]).unwrap_err().code, Code::NotFound);
    assert_eq!(read(&switch, group(0, &[])), [group(5, &[(2, 0)])]);
}

#[test]
fn resubmitted_packets_keep_their_field_list_and_come_before_others() {
    let mut switch = traffic();
    switch.receive(0, 1, &probe(RESUBMIT, 3, 2, b"r"));
    switch.receive(0, 1, &probe(UNICAST, 0, 2, b"u"));
    let first = seen(&transmit(&mut switch, 0, 2).unwrap());
    assert_eq!((first.name.as_slice(), first.passes), (&b"r"[..], 4));
    assert_eq!((first.ingress_instance, first.egress_instance), (6, 0));
    assert_eq!(first.ingress_port, 0, "not in the field list, so lost as in BMv2");
    assert_eq!(seen(&transmit(&mut switch, 0, 2).unwrap()).passes, 1);
    assert_eq!(switch.statistics().resubmitted, 3);
}

#[test]
fn endless_resubmission_ends_in_a_drop() {
    let mut switch = switch(TRAFFIC, SwitchConfig { resubmit_limit: 4, ..Default::default() });
    switch.receive(0, 1, &probe(RESUBMIT, 4, 2, b"just"));
    switch.receive(0, 1, &probe(RESUBMIT, 5, 2, b"over"));
    assert_eq!(seen(&transmit(&mut switch, 0, 2).unwrap()).name, b"just");
    assert_eq!(transmit(&mut switch, 0, 2), None);
    assert_eq!(switch.statistics().resubmit_drops, 1);
}

#[test]
fn recirculated_packets_do_not_block_others() {
    let mut switch = traffic();
    // A packet that recirculates through the CPU port, as a sweep does, and ends there.
    switch.packet_out(0, &probe(RECIRCULATE, 200, CPU_PORT, b"walk"));
    let mut steps = 0;
    while switch.run_pending(0, 10) {
        steps += 1;
        // Between any two slices of it, other traffic passes at once.
        switch.receive(0, 1, &probe(UNICAST, 0, 2, b"u"));
        assert_eq!(seen(&transmit(&mut switch, 0, 2).unwrap()).enq_qdepth, 0);
    }
    assert!((15..=25).contains(&steps), "{steps} slices of 10 for 200 rounds");
    let walked = seen(&switch.poll_packet_in().unwrap());
    assert_eq!((walked.name.as_slice(), walked.passes), (&b"walk"[..], 201));
    assert_eq!(walked.ingress_instance, 4);
    assert_eq!(switch.statistics().recirculated, 200);
    assert!(switch.poll_packet_in().is_none() && !switch.has_pending());
}

#[test]
fn recirculated_packets_take_turns() {
    // Whichever is first in: the one with fewer rounds leaves first.
    let (long, short) = ((100, &b"long"[..]), (2, &b"short"[..]));
    for packets in [[long, short], [short, long]] {
        let mut switch = traffic();
        for (rounds, name) in packets {
            switch.receive(0, 1, &probe(RECIRCULATE, rounds, 2, name));
        }
        let mut left = Vec::new();
        for _ in 0..300 {
            left.extend(transmit(&mut switch, 0, 2).map(|f| seen(&f).name));
            switch.run_pending(0, 1);
        }
        assert_eq!(left, [&b"short"[..], b"long"]);
    }
}

#[test]
fn endless_recirculation_is_bounded_in_each_call_and_in_number() {
    let mut switch = switch(TRAFFIC, SwitchConfig { recirculation_limit: 3, ..Default::default() });
    for i in 0..8 {
        switch.receive(0, 1, &probe(RECIRCULATE, 255, CPU_PORT, &[i]));
    }
    // Each call returns although the packet has not finished.
    assert!(switch.run_pending(0, 8));
    while switch.run_pending(0, 8) {}
    let mut out = 0;
    while switch.poll_packet_in().is_some() {
        out += 1;
    }
    let dropped = switch.statistics().recirculation_drops;
    assert_eq!(out + dropped, 8, "every packet is accounted for");
    assert!(out >= 1);
}

#[test]
fn packets_to_and_from_the_controller() {
    let mut switch = traffic();
    switch.packet_out(0, &probe(UNICAST, 0, 3, b"out"));
    assert_eq!(seen(&transmit(&mut switch, 0, 3).unwrap()).ingress_port, CPU_PORT);
    switch.receive(0, 1, &probe(UNICAST, 0, CPU_PORT, b"in"));
    assert!(switch.has_pending() && !switch.run_pending(0, 8));
    assert_eq!(seen(&switch.poll_packet_in().unwrap()).name, b"in");
}

#[test]
fn packets_for_a_controller_that_does_not_listen_are_bounded() {
    let mut switch = switch(TRAFFIC, SwitchConfig { queue_limit: 4, ..Default::default() });
    for _ in 0..3 {
        for _ in 0..4 {
            switch.receive(0, 1, &probe(UNICAST, 0, CPU_PORT, b"in"));
        }
        switch.run_pending(0, 100);
    }
    assert_eq!(switch.statistics().packet_in_drops, 8);
}

#[test]
fn another_program_takes_no_packet_of_the_old_one() {
    let mut switch = traffic();
    switch.receive(0, 1, &probe(UNICAST, 0, 2, b"old"));
    switch.receive(0, 1, &probe(RECIRCULATE, 9, CPU_PORT, b"old"));
    switch.run_pending(0, 1);
    switch.commit(forwarding(TABLES));
    assert_eq!(transmit(&mut switch, 0, 2), None);
    assert!(!switch.has_pending());
    assert_eq!(switch.statistics().replaced, 2);
}

#[test]
fn a_saved_program_is_visible_to_the_control_plane_only() {
    let mut switch = traffic();
    assert!(!switch.commit_saved());
    switch.save(forwarding(TRAFFIC));
    write(&mut switch, insert(group(5, &[(2, 0)]))).unwrap();
    switch.receive(0, 1, &probe(MULTICAST, 0, 5, b"m"));
    assert_eq!(switch.queue_depth(2), 0, "the group is the saved program's");
    assert!(switch.commit_saved());
    switch.receive(0, 1, &probe(MULTICAST, 0, 5, b"m"));
    assert_eq!(switch.queue_depth(2), 1);
}

proptest! {
    /// Random frames break nothing, and every packet is accounted for: sent, counted or waiting.
    #[test]
    fn random_frames_are_all_accounted_for(
        frames in proptest::collection::vec(
            (0u16..6, proptest::collection::vec(any::<u8>(), 0..60), 0u8..6), 1..200),
    ) {
        let mut switch = switch(TRAFFIC, SwitchConfig { queue_limit: 20, ..Default::default() });
        write(&mut switch, insert(group(2, &[(1, 1), (2, 2), (3, 3)]))).unwrap();
        let (mut sent, mut extra) = (0, 0);
        for (i, (port, frame, op)) in frames.iter().enumerate() {
            let mut frame = frame.clone();
            // Most random operations and ports have no effect, so prefer the interesting ones.
            if frame.len() >= 4 {
                frame[0] = *op;
                frame[2] %= 2;
                frame[3] %= 8;
            }
            if frame.len() >= 32 && frame[0] == MULTICAST && frame[2..4] == [0, 2] {
                extra += 2; // three copies for one
            }
            switch.receive(i as u64, *port, &frame);
            switch.run_pending(i as u64, 2);
            if i % 3 == 0 {
                sent += transmit(&mut switch, i as u64, (i % 5) as u16).is_some() as usize;
            }
        }
        for _ in 0..2000 {
            let more = switch.run_pending(1000, 50);
            let mut any = false;
            for port in 1..=4 {
                while transmit(&mut switch, 1000, port).is_some() {
                    sent += 1;
                    any = true;
                }
            }
            if !more && !any && !switch.has_pending() {
                break;
            }
        }
        while switch.poll_packet_in().is_some() {
            sent += 1;
        }
        let s = switch.statistics();
        let queue_drops: u64 =
            [1, 2, 3, 4, CPU_PORT].iter().map(|&p| switch.port_statistics(p).unwrap().queue_drops).sum();
        let gone = s.ingress_drops + s.no_such_port + s.no_such_group + s.resubmit_drops
            + s.recirculation_drops + s.packet_in_drops + queue_drops;
        prop_assert_eq!(sent as u64 + gone, (frames.len() + extra) as u64);
    }
}
