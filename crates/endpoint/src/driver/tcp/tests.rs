use super::*;

const MS: u64 = 1_000_000;
/// Delay of the connections in these tests, each direction.
const DELAY: u64 = MS / 10;

fn topology(faults: &str) -> Topology {
    let text = format!("[topology]\nworkers = 1\nps_hosts = 1\n[faults]\n{faults}\n[[job]]\n");
    tributary_model::jobfile::parse(&text, "f").unwrap().network.topology
}

fn connect(faults: &str, seed: u64) -> Connection {
    connect_over(&topology(faults), seed)
}

fn connect_over(topology: &Topology, seed: u64) -> Connection {
    let hosts = ["w1", "ps"].map(|name| topology.host_named(name).unwrap());
    let delay = Delay { fixed: Duration::from_nanos(DELAY), jitter: Duration::ZERO };
    let luck = Luck { seed, spared: false, until: None };
    let mut connection = Connection::open(topology, hosts, delay, luck, 0).unwrap();
    connection.connect(0);
    connection
}

/// The time at which `bytes` bytes have arrived.
fn arrival(connection: &mut Connection, way: Way, bytes: usize) -> u64 {
    while let Some(due) = connection.next_due() {
        connection.advance(due);
        if connection.received(way).len() >= bytes {
            return due;
        }
    }
    panic!("nothing happens any more");
}

/// Processes everything that is due until a time.
fn settle(connection: &mut Connection, until: u64) {
    connection.advance(until);
}

fn set_down(connection: &mut Connection, down: bool) {
    connection.set_down(LinkId(0), down);
}

#[test]
fn without_faults_bytes_arrive_after_the_handshake_and_the_delay() {
    let mut connection = connect("", 1);
    connection.write(0, Way::Up, b"question");
    assert_eq!(arrival(&mut connection, Way::Up, 8), 3 * DELAY);
    connection.write(3 * DELAY, Way::Down, b"answer");
    assert_eq!(arrival(&mut connection, Way::Down, 6), 4 * DELAY);
    assert_eq!(connection.take(Way::Up, 8).collect::<Vec<_>>(), b"question");
    settle(&mut connection, MS);
    assert_eq!((connection.next_due(), connection.backlog(Way::Up)), (None, 0));
}

#[test]
fn delay_and_jitter_of_all_links_add_up() {
    let mut connection = connect("delay = \"1ms\"\njitter = \"1ms\"", 1);
    settle(&mut connection, 100 * MS);
    connection.write(100 * MS, Way::Up, b"a");
    // Two links of 1 to 2 ms each.
    let took = arrival(&mut connection, Way::Up, 1) - 100 * MS;
    assert!((2 * MS + DELAY..=4 * MS + DELAY).contains(&took), "{took}");
}

#[test]
fn segments_take_turns_on_a_slow_link_and_its_latency_adds_up() {
    let slow =
        "[[topology.link]]\nbetween = [\"w1\", \"s1\"]\nrate = \"1Mb/s\"\nlatency = \"1ms\"\n";
    let text = format!("[topology]\nworkers = 1\nps_hosts = 1\n{slow}[[job]]\n");
    let topology = tributary_model::jobfile::parse(&text, "f").unwrap().network.topology;
    let mut connection = connect_over(&topology, 1);
    settle(&mut connection, 100 * MS);
    connection.write(100 * MS, Way::Up, &[0; 2 * 1460]);
    // Two segments of 1460 bytes with 78 of headers and framing; a bit takes 1 µs.
    let took = arrival(&mut connection, Way::Up, 2 * 1460) - 100 * MS;
    assert_eq!(took, 2 * (1460 + 78) * 8 * 1000 + MS + DELAY);
}

#[test]
fn a_lost_segment_is_sent_again_after_timeouts_that_double() {
    let mut connection = connect("", 1);
    settle(&mut connection, MS);
    set_down(&mut connection, true);
    connection.write(MS, Way::Up, b"a");
    settle(&mut connection, 500 * MS);
    set_down(&mut connection, false);
    // Sent at 0, as a probe after 200 ms, after 200 ms more, and after 400 ms more.
    assert_eq!(arrival(&mut connection, Way::Up, 1), MS + 800 * MS + DELAY);
}

#[test]
fn a_later_segment_repairs_a_loss_without_a_timeout_and_in_order() {
    let mut connection = connect("", 1);
    settle(&mut connection, MS);
    set_down(&mut connection, true);
    connection.write(MS, Way::Up, b"0");
    settle(&mut connection, MS + DELAY);
    set_down(&mut connection, false);
    connection.write(MS + DELAY, Way::Up, b"1");
    settle(&mut connection, MS + 3 * DELAY - 1);
    assert_eq!(connection.received(Way::Up), b"", "behind the one that is missing");
    // There, the acknowledgement back, and there again.
    assert_eq!(arrival(&mut connection, Way::Up, 2), MS + 4 * DELAY);
    assert_eq!(connection.received(Way::Up), b"01");
}

#[test]
fn a_dead_link_delivers_nothing_and_breaks_the_connection() {
    let mut connection = connect("loss = 1.0", 1);
    connection.write(0, Way::Up, b"a");
    connection.write(0, Way::Down, b"b");
    let mut now = 0;
    while !connection.is_broken(now) {
        now = connection.next_due().expect("it is sent again");
        connection.advance(now);
    }
    // The last timeout is cut short: after 1, 3, 7 and 15 seconds the next would be at 31.
    assert_eq!(Duration::from_nanos(now), USER_TIMEOUT);
    assert!(!connection.is_accepted() && !connection.is_established());
    assert_eq!(
        (connection.received(Way::Up), connection.received(Way::Down)),
        (&b""[..], &b""[..])
    );
}

#[test]
fn all_bytes_arrive_in_order_under_random_faults() {
    let faults = "loss = 0.1\nduplicate = 0.1\nreorder = 0.1\njitter = \"1ms\"";
    let mut repaired = 0;
    for seed in 0..100 {
        let mut connection = connect(faults, seed);
        let bytes =
            |way: Way| -> Vec<u8> { (0..40_000u32).map(|at| (at / 7) as u8 ^ way as u8).collect() };
        for way in Way::BOTH {
            for piece in bytes(way).chunks(1000) {
                connection.write(0, way, piece);
            }
        }
        for way in Way::BOTH {
            let took = arrival(&mut connection, way, 40_000);
            repaired += u64::from(took > 100 * MS);
            assert_eq!(connection.received(way), bytes(way), "seed {seed}");
        }
        let mut now = 0;
        while let Some(due) = connection.next_due() {
            assert!(due >= now, "seed {seed}");
            now = due;
            connection.advance(due);
        }
        assert_eq!(connection.backlog(Way::Up) + connection.backlog(Way::Down), 0);
    }
    assert!(repaired > 0, "losses cost time");
}
