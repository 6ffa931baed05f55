//! Everything but table entries.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::json;
use tributary_netio::{FrameIo as _, memory};

use crate::device::{Device, FEATURES, NAMES, STRUCTS, TABLES};

#[test]
fn objects_are_listed_and_described() {
    let mut device = Device::new(Some(TABLES));
    let tables = device.run("tables");
    for part in
        ["exact_table", "a: exact bit<32>", "b: range bit<16>", "answer, pair, NoAction", "counter"]
    {
        assert!(tables.contains(part), "{part}: {tables}");
    }
    let all = device.json("list");
    assert_eq!(all["registers"][0]["type"], "bit<20>", "{all}");
    assert_eq!(all["counters"][0]["name"], "TestIngress.seen");
    let table = device.run("describe ternary_table");
    assert!(
        table.contains("add ternary_table a=N&&&MASK b=N priority=N answer value=N"),
        "{table}"
    );
    assert!(device.run("describe pair").contains("unused: bit<9>, value: bit<8>"));
    assert!(device.run("describe last").contains("bit<20>"));
    assert!(device.fail("describe lst").contains("there is no object `lst`"));
}

#[test]
fn counters_are_read_written_and_reset() {
    let mut device = Device::new(Some(TABLES));
    assert_eq!(device.run("counter seen"), "all 8 are zero");
    device.run("counter seen 3 packets=5 bytes=600");
    assert_eq!(device.json("counter seen 3"), json!([{ "index": 3, "packets": 5, "bytes": 600 }]));
    device.run("counter seen 3 bytes=7");
    assert_eq!(device.json("counter seen 3"), json!([{ "index": 3, "packets": 5, "bytes": 7 }]));
    assert!(device.run("counter seen").contains("the other 7 are zero"));
    assert_eq!(device.run("counter seen reset"), "reset: 1 that counted");
    device.run("add exact_table a=1 b=2 answer 1");
    device.run("counter exact_hits a=1 b=2 packets=4");
    assert_eq!(device.json("counter exact_table a=1 b=2")[0]["packets"], 4);
    device.run("counter exact_table reset");
    assert_eq!(device.json("counter exact_hits")[0]["packets"], 0);
    assert!(
        device.fail("counter lpm_table").contains("entries of table `lpm_table` have no counter")
    );
    assert!(device.fail("counter seen x").contains("`x` is not an index"));
    assert!(device.fail("counter sen").contains("did you mean `seen`?"));
    for line in [
        "counter exact_table a=1 b=3 reset",
        "counter exact_table a=1 b=3 packets=1",
        "counter exact_table a=1 b=3",
    ] {
        let said = device.fail(line);
        assert!(said.contains("table `exact_table` has no entry `a=1 b=3`"), "{line}: {said}");
    }
    device.run("clear exact_table");
    device.run("counter exact_table reset");
    let said = device.fail("counter seen 3 packets=1 packets=2");
    assert_eq!(said, "`packets` is given twice; leave one out");
}

#[test]
fn meters_get_rates_and_lose_them() {
    let mut device = Device::new(Some(FEATURES));
    assert_eq!(device.run("meter by_index"), "no meter has rates");
    device.run("meter by_index 2 cir=1_000 cburst=10");
    let rates = json!({ "cir": 1000, "cburst": 10, "pir": 1000, "pburst": 10 });
    assert_eq!(device.json("meter by_index 2")[0]["rates"], rates);
    assert!(device.run("meter by_index").contains("1000"));
    assert_eq!(device.run("meter by_index reset"), "reset: 1 that had rates");
    device.run("add metered key=1 NoAction");
    device.run("meter metered key=1 cir=5 cburst=6 pir=7 pburst=8");
    assert!(device.run("dump metered").contains("cir=5 cburst=6 pir=7 pburst=8"));
    device.run("meter metered key=1 reset");
    assert!(!device.run("dump metered").contains("cir="));
    assert!(device.fail("meter by_index 2 cir=1").contains("write `meter"));
    let said = device.fail("meter metered key=2 cir=5 cburst=6");
    assert!(said.contains("table `metered` has no entry `key=2`"), "{said}");
}

#[test]
fn registers_of_numbers_and_structures() {
    let mut device = Device::new(Some(TABLES));
    device.run("register last 5 0xabc");
    assert_eq!(device.json("register last 5"), json!([{ "index": 5, "value": "2748" }]));
    assert!(device.run("register last").contains("the other 15 are zero"));
    assert_eq!(device.run("register last reset"), "reset: 1 that were not zero");
    let mut device = Device::new(Some(STRUCTS));
    device.run("register flows 1 {seen=true, span={low=1, high=0x200}, kinds={3, 1}}");
    let shown = "{seen=true, span={low=1, high=512}, kinds={3, 1}}";
    assert_eq!(device.json("register flows 1")[0]["value"], shown);
    device.run("register flows 2 {true, {1, 512}, {3, 1}}");
    assert_eq!(device.json("register flows 2")[0]["value"], shown);
    assert!(device.fail("register flows 1 {true}").contains("a member is missing"));
    assert!(
        device.fail("register flows 1 7").contains("write {seen=VALUE, span=VALUE, kinds=VALUE}")
    );
}

#[test]
fn groups_and_sessions() {
    let mut device = Device::new(Some(TABLES));
    assert_eq!(device.run("multicast"), "no multicast groups");
    device.run("multicast add 1 1 2:7");
    let ports = json!([{ "port": "1", "instance": 0 }, { "port": "2", "instance": 7 }]);
    assert_eq!(device.json("multicast 1"), json!([{ "group": 1, "ports": ports }]));
    device.run("multicast change 1 2");
    assert!(!device.run("multicast").contains("2:7"));
    device.run("multicast delete 1");
    device.run("clone add 9 1 bytes=64 class=0");
    let one = device.json("clone 9");
    assert_eq!((&one[0]["bytes"], &one[0]["session"]), (&json!(64), &json!(9)), "{one}");
    device.run("clone delete 9");
    assert_eq!(device.run("clone"), "no clone sessions");
    let said = device.fail("multicast add 1 p1");
    assert!(said.contains("`port`: `p1` is not a value"), "{said}");
    let said = device.fail("multicast add 1 0x100000000");
    assert!(said.contains("does not fit into 32 bits"), "{said}");
    device.run("multicast add 1 0x2");
    assert_eq!(device.json("multicast 1")[0]["ports"][0]["port"], "2");
    assert!(device.fail("multicast x").contains("multicast group `x`: write a number"));
    assert!(device.fail("clone x").contains("clone session `x`: write a number"));
}

#[test]
fn members_groups_and_value_sets() {
    let mut device = Device::new(Some(FEATURES));
    device.run("member add spread 1 answer 7");
    device.run("member add spread 2 answer 8");
    assert!(device.run("member spread").contains("answer value=8"));
    device.run("group add spread 1 1:2 2 size=3");
    assert!(device.run("group").contains("1:2 2"));
    device.run("group change spread 1 2");
    device.run("group delete spread 1");
    device.run("member delete spread 1");
    assert_eq!(device.json("member").as_array().unwrap().len(), 1);
    assert!(device.run("valueset add special 7").contains("has 1 member"));
    assert!(device.run("valueset special").contains('7'));
    assert!(device.fail("valueset add special 7").contains("already"));
    device.run("valueset delete special 7");
    assert_eq!(device.run("valueset"), "no members");
    assert!(device.fail("valueset delete special 7").contains("has no such member"));
}

#[test]
fn packets_go_out_and_come_in() {
    let mut device = Device::new(Some(NAMES));
    device.run("packet-out 0x0102030405060708090a0b0c0d0e egress_port=2");
    let mut found = 0;
    for _ in 0..100 {
        found += device.ports[1].receive(8, &mut |_| {}).unwrap();
        if found > 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(found, 1, "the packet has left at port 2");
    assert!(device.fail("packet-out 0x01").contains("field `egress_port` is missing"));
    assert!(device.fail("packet-out xyz").contains("pairs of hexadecimal digits"));
    assert_eq!(device.run("packets seconds=1"), "");
}

#[test]
fn a_command_that_listens_ends_when_it_is_stopped() {
    let mut device = Device::new(Some(STRUCTS));
    for line in ["digests", "packets"] {
        let words = tributary_client::words::split(line).unwrap();
        let stop = async { tokio::time::sleep(Duration::from_millis(50)).await };
        let run =
            async { tributary_client::run(&mut device.session, &words, stop, &mut |_| {}).await };
        device.tokio.block_on(run).unwrap();
    }
}

/// Sends a frame again and again at a port, until the flag is set.
fn send(
    mut port: memory::MemoryPort,
    frame: &'static [u8],
    done: Arc<AtomicBool>,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        while !done.load(Ordering::Relaxed) {
            let _ = port.send(frame);
            let _ = port.flush();
            port.receive(8, &mut |_| {}).unwrap();
            std::thread::sleep(Duration::from_millis(20));
        }
    })
}

#[test]
fn digests_are_printed() {
    let mut device = Device::new(Some(STRUCTS));
    assert!(device.fail("digests flw_t").contains("there is no digest"));
    let done = Arc::new(AtomicBool::new(false));
    let port = device.ports.remove(0);
    let sender = send(port, &[1, 3, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], done.clone());
    let digest = device.json("digests flow_t 1 seconds=10");
    assert_eq!(digest["data"], "{seen=true, span={low=3, high=9}, kinds={1, 0}}", "{digest}");
    done.store(true, Ordering::Relaxed);
    sender.join().unwrap();
}

#[test]
fn packets_for_the_controller_are_printed() {
    let mut device = Device::new(Some(NAMES));
    let done = Arc::new(AtomicBool::new(false));
    let port = device.ports.remove(0);
    let sender = send(port, &[2, 1, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], done.clone());
    let packet = device.json("packets 1 seconds=10");
    assert_eq!(packet["metadata"]["ingress_port"], "1", "{packet}");
    assert_eq!(packet["payload"], "0201000500000000000000000000");
    done.store(true, Ordering::Relaxed);
    sender.join().unwrap();
}
