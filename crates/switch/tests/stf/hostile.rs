//! Scripts that are long in one way or another: each ends in time, and a wrong one with one short
//! line.

use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use tributary_switch::Forwarding;
use tributary_switch::stf::{Passed, Script};

/// Limit of processor time of a script, in a development build.
const TIME: Duration = Duration::from_secs(5);

/// Maximum number of characters of an error.
const LINE: usize = 2000;

/// Number of commands of long scripts.
const COMMANDS: usize = 100_000;

/// Sends packets back with the action data of the entry for their first byte and a counter of them.
const PROGRAM: &str = "
#include <core.p4>
#include <v1model.p4>
header h_t { bit<32> key; bit<8> value; }
struct headers_t { h_t h; }
struct meta_t {}
parser Parse(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start { packet.extract(hdr.h); transition accept; }
}
control Verify(inout headers_t hdr, inout meta_t meta) { apply {} }
control Forward(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    register<bit<8>>(16) kept;
    direct_counter(CounterType.packets) hits;
    action set(bit<8> v) { hdr.h.value = v; }
    table t {
        key = { hdr.h.key: exact; }
        actions = { set; }
        default_action = set(0xFF);
        size = 200000;
        counters = hits;
    }
    apply { sm.egress_spec = 1; t.apply(); }
}
control Leave(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) { apply {} }
control Update(inout headers_t hdr, inout meta_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(Parse(), Verify(), Forward(), Leave(), Update(), Deparse()) main;
";

pub(crate) fn trials() -> Vec<Trial> {
    let test =
        |name: &str, f: fn() -> Result<(), Failed>| Trial::test(format!("hostile::{name}"), f);
    vec![
        test("long_lines_end_with_a_short_error", long_lines),
        test("long_packets_are_sent_and_compared", long_packets),
        test("hundred_thousand_commands", many_commands),
    ]
}

/// Processor time of this thread.
fn processor_time() -> Result<Duration, Failed> {
    let stat = std::fs::read_to_string("/proc/thread-self/stat")?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
    Ok(Duration::from_millis(ticks * 10))
}

/// The outcome of a script, in time.
fn outcome(what: &str, text: &str) -> Result<Result<Passed, String>, Failed> {
    let forwarding = Forwarding::from_source(PROGRAM).map_err(|error| error.to_string())?;
    let before = processor_time()?;
    let script = Script::parse(text).map_err(|error| error.to_string());
    let ran = |script: Script| {
        tributary_switch::stf::run(&script, forwarding).map_err(|failure| failure.to_string())
    };
    let outcome = script.and_then(ran);
    let time = processor_time()? - before;
    if time > TIME {
        return Err(format!("{what} took {time:?}").into());
    }
    if let Err(error) = &outcome
        && (error.lines().count() != 1 || error.chars().count() > LINE)
    {
        let start: String = error.chars().take(200).collect();
        return Err(format!("{what}: {} characters: {start}", error.chars().count()).into());
    }
    Ok(outcome)
}

fn long_lines() -> Result<(), Failed> {
    const LONG: usize = 1 << 20;
    let digits = "ab".repeat(LONG / 2);
    let word = "name".repeat(LONG / 4);
    let names = "a.".repeat(LONG / 2);
    let words = "word ".repeat(LONG / 5);
    let signs = "&&& -> ".repeat(LONG / 7);
    let stars = "*".repeat(LONG);
    let scripts = [
        ("an unknown command", word.clone()),
        ("a packet with a wrong byte", format!("packet 0 {digits}xy")),
        ("a packet for a long port", format!("packet {digits} 00")),
        ("a pattern with a sign in it", format!("expect 0 {digits} $ {digits}")),
        ("a long table", format!("add {word} hdr.h.key:1 set(v:1)")),
        ("a long path", format!("add {names}t hdr.h.key:1 set(v:1)")),
        ("a long key", format!("add t {word}:1 set(v:1)")),
        ("a long action", format!("add t key:1 {word}(v:1)")),
        ("a long argument", format!("add t key:1 set({word}:1)")),
        ("a long number", format!("add t key:0x{digits} set(v:1)")),
        ("a number of stars", format!("add t key:0x{stars} set(v:1)")),
        ("many words", format!("add t {words}")),
        ("many signs", format!("add t key:1{signs}")),
        ("many arguments", format!("add t key:1 set({})", "v:1,".repeat(LONG / 4))),
        ("an open quote", format!("add \"{word}")),
        ("a long quote", format!("add \"{word}\" key:1 set(v:1)")),
        ("a long label", format!("add t key:1 set(v:1) = {word} {word}")),
        ("an unknown label", format!("check_counter hits({word}) packets == 1")),
        ("an unknown counter", format!("check_counter {word}(1) packets == 1")),
        ("a long register", format!("register_write {word} 1 1")),
        ("many values", format!("register_write kept 1 {}", "1 ".repeat(LONG / 2))),
        (
            "a value that is not there",
            format!("check_register kept(1) == {}", "1 ".repeat(LONG / 2)),
        ),
        ("many ports", format!("mc_node_create 1 {}", "600 ".repeat(LONG / 4))),
        ("a long set", format!("pvs_add {word} 1")),
        ("characters of three bytes", "€".repeat(LONG / 3)),
    ];
    for (what, text) in scripts {
        if outcome(what, &text)?.is_ok() {
            return Err(format!("{what}: it passed").into());
        }
    }
    let comment = format!("# {word}\npacket 0 00000001 00\nexpect 1 {}", "0* ".repeat(4) + "FF");
    outcome("a long comment", &comment)?.map_err(Failed::from)?;
    Ok(())
}

fn long_packets() -> Result<(), Failed> {
    // As long as a frame can be, over many lines; and longer.
    let bytes = |count: usize| "0102 \n".repeat(count / 2);
    let fits = 9000;
    let text =
        format!("packet 0 00000001 00\n{}\nexpect 1 00000001 FF\n{}$", bytes(fits), bytes(fits));
    outcome("a long packet", &text)?.map_err(Failed::from)?;
    let text = format!("packet 0 00000001 00 {}\nexpect 1 00", bytes(1 << 20));
    // Whether the switch takes it or not is for the switch to say.
    let _ = outcome("a packet of a megabyte", &text)?;
    let text = format!("packet 0 00000001 00\nexpect 1 {}", bytes(1 << 20));
    let failed = outcome("a pattern of a megabyte", &text)?;
    match failed {
        Err(reason) if reason.contains("it ends after 5 bytes") || reason.contains("byte 0 is") => {
            Ok(())
        }
        other => Err(format!("{other:?}").into()),
    }
}

fn many_commands() -> Result<(), Failed> {
    let lines = |line: &dyn Fn(usize) -> String| -> String {
        (0..COMMANDS).map(|number| line(number) + "\n").collect()
    };
    let adding = lines(&|number| format!("add t hdr.h.key:{number} set(v:{})", number % 256));
    let passes = [
        ("entries", adding.clone() + "packet 0 0001869F 00\nexpect 1 0001869F 9F $"),
        (
            "packets",
            lines(&|_| "packet 0 00000000 00".to_owned())
                + &lines(&|_| "expect 1 00000000 FF $".to_owned()),
        ),
        ("waits", lines(&|_| "wait".to_owned())),
        ("registers", lines(&|number| format!("register_write Forward.kept {} 1", number % 16))),
        ("checks", lines(&|_| "check_register kept(3) == 0".to_owned())),
        ("nodes", lines(&|number| format!("mc_node_create {} 1 2", number % 1000))),
    ];
    for (what, text) in passes {
        outcome(what, &text)?.map_err(|reason| format!("{what}: {reason}"))?;
    }
    let fails = [
        ("the last entry twice", adding + "add t hdr.h.key:99999 set(v:1)"),
        ("unknown commands", lines(&|_| "nothing".to_owned())),
        ("a missing packet", lines(&|_| "expect 1 00".to_owned())),
    ];
    for (what, text) in fails {
        if outcome(what, &text)?.is_ok() {
            return Err(format!("{what}: it passed").into());
        }
    }
    Ok(())
}
