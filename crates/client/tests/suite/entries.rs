//! Table entries: written, read and refused.

use serde_json::json;

use crate::device::{Device, FEATURES, NAMES, PSA, TABLES};

#[test]
fn entries_of_all_match_kinds_are_written_and_read() {
    let mut device = Device::new(Some(TABLES));
    for line in [
        "add exact_table a=10.0.0.1 b=0x10 -> answer(value=7)",
        "add lpm_table a=10.1.2.3/8 answer value=8",
        "add lpm_table a=10.1.0.0/16 answer 9",
        "add ternary_table a=0x0a000000&&&0xff000000 b=5 priority=10 answer value=1",
        "add range_table b=1..80 priority=1 answer value=2",
        "add optional_table b=80 priority=3 answer value=3",
        "add optional_table priority=1 NoAction",
    ] {
        device.run(line);
    }
    let text = device.run("dump exact_table");
    assert!(text.contains("answer value=7") && text.contains("16"), "{text}");
    assert!(text.contains("packets") && text.contains("default"), "{text}");
    let lpm = device.json("dump lpm_table");
    assert_eq!(lpm.as_array().unwrap().len(), 3, "{lpm}");
    let eight =
        lpm.as_array().unwrap().iter().find(|one| one["keys"]["hdr.key.a"] == "0xa000000/8");
    let expected = json!({ "name": "TestIngress.answer", "params": { "value": "8" } });
    assert_eq!(eight.unwrap()["action"], expected, "{lpm}");
    let one = device.json("dump range_table b=1..80");
    assert_eq!(one[0]["priority"], 1);
    assert_eq!(device.json("dump range_table b=1..81"), json!([]));
    device.run("change exact_table a=10.0.0.1 b=16 pair unused=1 value=2");
    assert!(device.run("dump exact_table").contains("pair unused=1 value=2"));
    device.run("delete exact_table a=10.0.0.1 b=16");
    assert!(!device.run("dump exact_table").contains("pair"));
    assert_eq!(device.run("clear lpm_table optional_table"), "deleted: 4 entries");
    let all = device.run("dump all");
    for part in ["ternary_table", "range_table", "const_table", "answer value=77"] {
        assert!(all.contains(part), "{part}: {all}");
    }
}

#[test]
fn default_actions_are_shown_set_and_reset() {
    let mut device = Device::new(Some(TABLES));
    assert_eq!(device.run("default exact_table"), "NoAction");
    device.run("default exact_table miss");
    assert_eq!(device.run("default exact_table"), "miss");
    device.run("default exact_table reset");
    assert_eq!(device.run("default exact_table"), "NoAction");
    let line = device.fail("default exact_table reserve");
    assert!(line.contains("table `exact_table` has no default action `reserve`"), "{line}");
}

#[test]
fn errors_name_the_word_and_what_is_near() {
    let mut device = Device::new(Some(TABLES));
    for (line, part) in [
        ("tabels", "did you mean `tables`?"),
        ("dump exact_tabel", "there is no table `exact_tabel`; did you mean `exact_table`?"),
        ("add exact_table a=1 answer 1", "needs the exact key `b`; add b=VALUE"),
        (
            "add exact_table a=1 b=2",
            "an action is missing; table `exact_table` has: answer value=N;",
        ),
        ("add exact_table a=1 b=2 anser 1", "did you mean `answer`?"),
        (
            "add exact_table a=1 b=2 answer",
            "parameter `value` is missing; the action is: answer value=N",
        ),
        ("add exact_table a=1 b=2 answer 300", "`value`: `300` does not fit into 8 bits"),
        ("add exact_table a=1 b=2 answer 1 2", "`2` is too much"),
        (
            "add exact_table a=1 c=2 answer 1",
            "table `exact_table` has no key `c`; did you mean `a`?",
        ),
        ("add exact_table a=1 b=2 priority=3 answer 1", "have no priority"),
        ("add exact_table a=1 a=2 b=3 answer 1", "key `a` is given twice"),
        ("add ternary_table a=1 b=2 answer 1", "needs a priority; add priority=N"),
        ("delete exact_table a=1 b=2 answer", "takes a table and keys only"),
        ("add exact_table a=1 b=2 member=1", "has no action profile"),
        ("delete exact_table a=1 b=2", "exact_table a=1 b=2: NotFound"),
        ("dump", "write `dump TABLE [KEY=VALUE...]` or `dump all`"),
    ] {
        let said = device.fail(line);
        assert!(said.contains(part), "{line}: {said}");
    }
    device.run("add exact_table a=1 b=2 answer 1");
    let said = device.fail("add exact_table a=1 b=2 answer 1");
    assert!(said.starts_with("exact_table a=1 b=2 answer value=1: AlreadyExists"), "{said}");
    assert!(said.ends_with("to replace it, use `change`"), "{said}");
}

#[test]
fn without_a_program_the_error_says_how_to_set_one() {
    let mut device = Device::new(None);
    let said = device.fail("dump ipv4_lpm");
    assert_eq!(said, "the switch runs no program; set one with `pipeline set PROGRAM.p4`");
    assert!(device.run("tables").contains("none"));
    let program = device.directory.path().join("tables.p4");
    std::fs::write(&program, TABLES).unwrap();
    let said = device.run(&format!("pipeline set {}", program.display()));
    assert!(said.contains("6 tables"), "{said}");
    device.run("add exact_table a=1 b=2 answer 1");
    let copy = device.directory.path().join("copy.p4");
    device.run(&format!("pipeline get {}", copy.display()));
    assert!(std::fs::read_to_string(&copy).unwrap().contains("exact_table"));
    assert!(device.run("pipeline").contains("v1model"));
    assert!(device.run("info").contains("TestIngress.exact_table"));
    std::fs::write(&program, "control c() { apply { x = 1; } }").unwrap();
    let said = device.fail(&format!("pipeline set {}", program.display()));
    assert!(said.contains("tables.p4 has errors"), "{said}");
}

#[test]
fn what_is_saved_can_be_restored() {
    for (program, commands) in [
        (
            TABLES,
            &[
                "add exact_table a=10.0.0.1 b=0x10 pair 1 2",
                "add ternary_table a=0x0a000000&&&0xff000000 b=5 priority=10 metadata=0a0b answer 1",
                "add range_table b=1..80 priority=1 answer value=2",
                "default lpm_table answer 4",
                "multicast add 3 1 2:7",
                "clone add 5 1 bytes=128",
            ][..],
        ),
        (
            FEATURES,
            &[
                "member add shared 1 answer 7",
                "add profiled key=1 member=1",
                "member add spread 1 answer 8",
                "member add spread 2 answer 9",
                "group add spread 4 1:2 2@1 size=3",
                "add selected key=1 group=4",
                "add metered key=5 NoAction",
                "meter metered key=5 cir=100 cburst=10 pir=200 pburst=20",
                "add aging key=7&&&0xff priority=1 timeout=30s learn",
                "meter by_index 2 cir=1000 cburst=10",
                "meter metered default cir=1 cburst=2 pir=3 pburst=4",
                "valueset add special 7",
            ],
        ),
        (FEATURES, &["add selected key=2 answer 1 weight=2 and answer 2 watch=1"]),
        (
            NAMES,
            &[
                "add vrfs vrf=1 set_vrf \"red, or blue\"",
                "add routes vrf=\"red, or blue\" key=0x1200/8 set_nexthop nexthop=n1",
                "multicast add 1 1 2:3",
            ],
        ),
        // The ports of PSA to recirculate and of the CPU.
        (PSA, &["multicast add 7 1 0xfffffffa:2 4294967293", "clone add 9 0xfffffffa bytes=64"]),
    ] {
        let mut device = Device::new(Some(program));
        for line in commands {
            device.run(line);
        }
        let saved = device.run("save");
        let mut other = Device::new(Some(program));
        for line in saved.lines().filter(|line| !other_has(line)) {
            other.run(line);
        }
        assert_eq!(other.run("save"), saved);
        assert!(saved.lines().count() >= commands.len(), "{saved}");
    }
}

#[test]
fn nothing_is_saved_without_a_line() {
    let mut device = Device::new(Some(TABLES));
    device.run("multicast add 3 1");
    assert_eq!(device.run("save exact_table"), "");
    assert_eq!(device.json("save exact_table"), json!([]));
    assert_eq!(device.run("save"), "multicast add 3 1");
}

#[test]
fn names_with_line_breaks_are_saved_in_one_line() {
    let mut device = Device::new(Some(NAMES));
    let line = "add vrfs vrf=1 set_vrf vrf=\"red\\n\\u{1b}[0m\"";
    device.run(line);
    assert_eq!(device.run("save vrfs"), line);
    device.run("clear vrfs");
    device.run(line);
    assert_eq!(device.run("save vrfs"), line);
}

/// Entries that a program brings with it.
fn other_has(line: &str) -> bool {
    line.starts_with("add initial")
}

#[test]
fn another_primary_controller_is_named() {
    let mut device = Device::new(Some(TABLES));
    let mut other = device.other(7, None);
    other.keep();
    let words = tributary_client::words::split("default exact_table miss").unwrap();
    let mut print = |_: &tributary_client::Report| {};
    let run = tributary_client::run(&mut other, &words, std::future::pending(), &mut print);
    device.tokio.block_on(run).unwrap();
    assert_eq!(device.run("default exact_table"), "miss", "reading needs no rights");
    let said = device.fail("default exact_table reset");
    assert!(said.contains("another controller is primary (election ID 7, ours is 1)"), "{said}");
    assert!(said.contains("--election-id 8"), "{said}");
    // A vacant role is taken over with a higher ID. Its own session can win again at once.
    drop(other);
    for _ in 0..3 {
        device.run("default exact_table reset");
    }
    let mut next = device.other(9, None);
    next.keep();
    device
        .tokio
        .block_on(tributary_client::run(&mut next, &words, std::future::pending(), &mut print))
        .unwrap();
    let said = device.fail("default exact_table reset");
    assert!(said.contains("(election ID 9, ours is 8)"), "{said}");
    // Each role has a primary controller of its own.
    device.session = device.other(1, Some("guest"));
    device.run("default exact_table reset");
    assert_eq!(device.run("default exact_table"), "NoAction");
    drop(next);
}
