//! UDP sockets of hosts, opposite ports that take frames.

use super::*;

pub(crate) const TESTS: &[TestOfKind] = &[
    ("payloads_of_all_sizes_both_ways", payloads_of_all_sizes_both_ways),
    ("batches_of_mixed_datagrams_keep_their_order", batches_of_mixed_datagrams_keep_their_order),
    ("congestion_marks_pass_both_ways", congestion_marks_pass_both_ways),
    ("groups_are_joined_and_left", groups_are_joined_and_left),
    ("a_worker_gets_its_own_packet_as_a_result", a_worker_gets_its_own_packet_as_a_result),
    ("only_own_datagrams", only_own_datagrams),
    ("an_unreachable_host_is_no_error", an_unreachable_host_is_no_error),
    ("one_process_has_the_port", one_process_has_the_port),
    ("what_a_full_buffer_drops_is_counted", what_a_full_buffer_drops_is_counted),
];

/// A host with UDP, and a port opposite.
fn host_and_port(kind: Kind) -> (Testbed, Device, Device) {
    let testbed = two_hosts_for(kind, 1_500);
    // The port answers no ARP requests.
    testbed.add_neighbour("h1", "eth0", ip(2), mac(2)).unwrap();
    let host = endpoint(&testbed, kind, "h1");
    let port = open(&testbed, kind.of_ports(), "h2", Config::switch_port("eth0"));
    (testbed, host, port)
}

/// The next frames that carry UDP: the kernel also sends IGMP and ARP.
fn next(port: &mut Device, count: usize) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while frames.len() < count {
        let [frame] = &receive(port, 1, LONG)[..] else { panic!("{} of {count}", frames.len()) };
        if frame[12..14] == [8, 0] && frame[23] == 17 {
            frames.push(frame.clone());
        }
    }
    frames
}

/// A frame as an endpoint sends it, with this type of service.
fn frame(from: u8, to: u8, payload: &[u8], tos: u8) -> Vec<u8> {
    let mut frame = datagram(from, to, PORT, payload);
    frame[15] = tos;
    frame[40..42].fill(0);
    checked(frame)
}

/// Corrects the checksum of the IPv4 header.
fn checked(mut frame: Vec<u8>) -> Vec<u8> {
    frame[24..26].fill(0);
    let sum: u32 = frame[14..34].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = !(((sum & 0xffff) + (sum >> 16)) as u16);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// What is the same at both ends: not the identification, and at a socket not the sender's Ethernet
/// address.
fn essence(frame: &[u8]) -> Vec<u8> {
    let mut frame = checked(frame.to_vec());
    frame[6..12].fill(0);
    frame[18..20].fill(0);
    checked(frame)
}

fn essences(frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    frames.iter().map(|frame| essence(frame)).collect()
}

fn payloads_of_all_sizes_both_ways(kind: Kind) {
    let (_testbed, mut host, mut port) = host_and_port(kind);
    for length in [1, 17, 18, 500, 1_471, 1_472] {
        let payload: Vec<u8> = (0..length).map(|at| (at * 7) as u8).collect();
        let there = frame(1, 2, &payload, 2);
        send(&mut host, &there);
        let [got] = &next(&mut port, 1)[..] else { unreachable!() };
        // Short frames may be padded.
        assert_eq!(essence(&got[..there.len()]), essence(&there));
        let back = frame(2, 1, &payload, 2);
        send(&mut port, &back);
        assert_eq!(essences(&receive(&mut host, 1, LONG)), [essence(&back)]);
    }
    let statistics = host.statistics().unwrap();
    assert_eq!((statistics.sent, statistics.received, statistics.overrun), (6, 6, 0));
    let error = host.send(&frame(1, 2, &[0; 1_473], 2)).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("MTU is 1500"), "{error}");
}

/// Runs of equal datagrams, longer than what is joined, with shorter ones in between.
fn batches_of_mixed_datagrams_keep_their_order(kind: Kind) {
    let (_testbed, mut host, mut port) = host_and_port(kind);
    let sizes = |number: usize| match number {
        0..200 => 300,
        200..330 if number.is_multiple_of(3) => 40,
        200..330 => 1_000,
        _ => 1 + number % 5,
    };
    let datagrams = |from, to| -> Vec<_> {
        let payload = |number: usize| {
            let mut payload = vec![number as u8; sizes(number)];
            // Only datagrams of the same job are joined.
            payload.iter_mut().skip(4).take(2).for_each(|byte| *byte = 0);
            payload
        };
        (0..400).map(|number| frame(from, to, &payload(number), 2)).collect()
    };
    let pass = |one: &mut Device, two: &mut Device, from, to| {
        let sent = datagrams(from, to);
        for batch in sent.chunks(100) {
            for frame in batch {
                assert!(one.send(frame).unwrap());
            }
            one.flush().unwrap();
            let got = next(two, batch.len());
            for (got, sent) in got.iter().zip(batch) {
                assert_eq!(essence(&got[..sent.len()]), essence(sent));
            }
        }
    };
    pass(&mut host, &mut port, 1, 2);
    pass(&mut port, &mut host, 2, 1);
}

fn congestion_marks_pass_both_ways(kind: Kind) {
    let (_testbed, mut host, mut port) = host_and_port(kind);
    // ECT(0), then a mark between others, which must not spread.
    let marks = [2, 2, 3, 2, 0];
    for tos in marks {
        assert!(host.send(&frame(1, 2, b"same", tos)).unwrap());
        assert!(port.send(&frame(2, 1, b"same", tos)).unwrap());
    }
    host.flush().unwrap();
    port.flush().unwrap();
    let tos = |frames: Vec<Vec<u8>>| frames.iter().map(|frame| frame[15]).collect::<Vec<_>>();
    assert_eq!(tos(next(&mut port, 5)), marks);
    assert_eq!(tos(next(&mut host, 5)), marks);
}

fn groups_are_joined_and_left(kind: Kind) {
    let (_testbed, mut host, mut port) = host_and_port(kind);
    let group = Ipv4Addr::new(239, 84, 1, 2);
    let mut to_all = frame(2, 1, b"to all", 2);
    to_all[..6].copy_from_slice(&[0x01, 0x00, 0x5e, 84, 1, 2]);
    to_all[30..34].copy_from_slice(&group.octets());
    let to_all = checked(to_all);
    send(&mut port, &to_all);
    assert_eq!(receive(&mut host, 1, SHORT), [[0_u8; 0]; 0]);
    host.join(group).unwrap();
    send(&mut port, &to_all);
    assert_eq!(essences(&receive(&mut host, 1, LONG)), [essence(&to_all)]);
    host.leave(group).unwrap();
    send(&mut port, &to_all);
    assert_eq!(receive(&mut host, 1, SHORT), [[0_u8; 0]; 0]);
}

/// Switches of ESA announce a sum in the packet that completed it.
fn a_worker_gets_its_own_packet_as_a_result(kind: Kind) {
    let (_testbed, mut host, mut port) = host_and_port(kind);
    let mut own = frame(2, 1, b"from itself", 2);
    own[26..30].copy_from_slice(&ip(1).octets());
    let own = checked(own);
    send(&mut port, &own);
    assert_eq!(essences(&receive(&mut host, 1, LONG)), [essence(&own)]);
}

fn only_own_datagrams(kind: Kind) {
    let (_testbed, mut host, mut port) = host_and_port(kind);
    let mut damaged = frame(2, 1, b"damaged", 2);
    damaged[24] ^= 1;
    let mut wrong_sum = frame(2, 1, b"with a checksum that is wrong", 2);
    wrong_sum[40..42].fill(9);
    let ours = frame(2, 1, b"ours", 2);
    for frame in [&datagram(2, 1, PORT + 1, b"other port"), &damaged, &wrong_sum, &ours] {
        send(&mut port, frame);
    }
    assert_eq!(essences(&receive(&mut host, 1, LONG)), [essence(&ours)]);
    let mut other = frame(1, 2, b"from another port", 2);
    other[34] ^= 1;
    let mut no_ip = frame(1, 2, b"no IP", 2);
    no_ip[12] = 9;
    for frame in [other, no_ip, vec![0; 60], vec![0; 10]] {
        let error = host.send(&frame).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    }
}

fn an_unreachable_host_is_no_error(kind: Kind) {
    let (_testbed, mut host, mut port) = host_and_port(kind);
    // Nobody answers for the first, and the kernel refuses the second.
    for (ip, unsendable) in [([10, 84, 0, 77], 0), ([255; 4], 1)] {
        let mut nowhere = frame(1, 2, b"nowhere", 2);
        nowhere[30..34].copy_from_slice(&ip);
        send(&mut host, &checked(nowhere));
        assert_eq!(host.statistics().unwrap().unsendable, unsendable);
    }
    let there = frame(1, 2, b"there, as usual", 2);
    send(&mut host, &there);
    let [got] = &next(&mut port, 1)[..] else { unreachable!() };
    assert_eq!(essence(&got[..there.len()]), essence(&there));
}

fn one_process_has_the_port(kind: Kind) {
    let (testbed, _host, _port) = host_and_port(kind);
    let open = |config: Config| {
        testbed.run_in("h1", || Device::open(kind, &config)).unwrap().unwrap_err().to_string()
    };
    let again = open(Config::endpoint("eth0", PORT));
    assert!(again.contains("UDP port 29810 of this host is in use"), "{again}");
    let as_switch = open(Config::switch_port("eth0"));
    assert!(as_switch.contains("a switch port on `eth0` needs every frame"), "{as_switch}");
    let absent = open(Config::endpoint("eth7", PORT));
    assert!(absent.contains("no network interface `eth7`"), "{absent}");
}

fn what_a_full_buffer_drops_is_counted(kind: Kind) {
    let testbed = two_hosts_for(kind, 1_500);
    let config = Config { receive_buffer: 4_096, ..Config::endpoint("eth0", PORT) };
    let mut host = open(&testbed, kind, "h1", config);
    let mut port = open(&testbed, kind.of_ports(), "h2", Config::switch_port("eth0"));
    for number in 0..200_u8 {
        // Other sizes, so that none are joined.
        let size = 1_000 + usize::from(number);
        send(&mut port, &frame(2, 1, &vec![number; size], 2));
    }
    std::thread::sleep(SHORT);
    let received = receive(&mut host, 200, SHORT).len() as u64;
    let statistics = host.statistics().unwrap();
    assert!(statistics.overrun > 0, "{statistics:?}");
    assert_eq!(received + statistics.overrun, 200);
}

pub(crate) fn sockets_share_a_port_by_job(kind: Kind) {
    let testbed = two_hosts_for(kind, 1_500);
    let config = |jobs: &[u16]| Config { jobs: jobs.to_vec(), ..Config::endpoint("eth0", PORT) };
    let configs = [config(&[7, 300]), config(&[8])];
    let open_shared = || testbed.run_in("h1", || Device::open_shared(kind, &configs)).unwrap();
    let Ok([mut first, mut second]) = <[Device; 2]>::try_from(open_shared().unwrap()) else {
        unreachable!("two sockets")
    };
    let mut port = open(&testbed, kind.of_ports(), "h2", Config::switch_port("eth0"));
    let of = |job: u16, number: u8| {
        frame(2, 1, &[&[0; 4], &job.to_be_bytes()[..], &[number; 20]].concat(), 2)
    };
    // Next to each other, so that a port which joins datagrams would join those of several jobs.
    let jobs = [7, 8, 300, 8, 8, 7];
    let frames = |wanted: &[u16]| -> Vec<Vec<u8>> {
        let numbered = (0..60).map(|number| (jobs[usize::from(number) % jobs.len()], number));
        numbered.filter(|(job, _)| wanted.contains(job)).map(|(job, n)| of(job, n)).collect()
    };
    for frame in frames(&jobs) {
        assert!(port.send(&frame).unwrap());
    }
    port.flush().unwrap();
    for (socket, wanted) in [(&mut first, frames(&[7, 300])), (&mut second, frames(&[8]))] {
        assert_eq!(essences(&receive(socket, wanted.len(), LONG)), essences(&wanted));
        assert_eq!(receive(socket, 1, SHORT), [[0_u8; 0]; 0]);
    }
    let group = Ipv4Addr::new(239, 84, 1, 2);
    second.join(group).unwrap();
    let mut to_all = of(8, 1);
    to_all[..6].copy_from_slice(&[0x01, 0x00, 0x5e, 84, 1, 2]);
    to_all[30..34].copy_from_slice(&group.octets());
    let to_all = checked(to_all);
    send(&mut port, &to_all);
    assert_eq!(essences(&receive(&mut second, 1, LONG)), [essence(&to_all)]);
    assert_eq!(receive(&mut first, 1, SHORT), [[0_u8; 0]; 0]);
    if kind.is_routed() {
        // Not even by sockets that would share it.
        let again = open_shared().unwrap_err().to_string();
        assert!(again.contains("UDP port 29810 of this host is in use"), "{again}");
    }
}
