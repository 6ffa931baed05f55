//! Valid scripts, and the error messages for invalid ones.

use proptest::prelude::*;

use crate::stf::script::{Script, Statement};

fn kinds(text: &str) -> Vec<Statement> {
    Script::parse(text).unwrap().statements.into_iter().map(|(_, statement)| statement).collect()
}

fn error(text: &str) -> String {
    Script::parse(text).unwrap_err().to_string()
}

#[test]
fn packets_may_be_written_in_words_and_lines() {
    let statements = kinds("# comment\n\npacket 3 01 02 0A\n  0bcd # more\nPACKET 511 ff\n");
    let [Statement::Packet { port: 3, data }, Statement::Packet { port: 511, data: other }] =
        &statements[..]
    else {
        panic!("{statements:?}");
    };
    assert_eq!((&data[..], &other[..]), (&[1, 2, 0x0a, 0x0b, 0xcd][..], &[0xff][..]));
}

#[test]
fn expectations_end_with_a_dollar_or_leave_the_rest_open() {
    let statements = kinds("expect 1 0a** *1 $\nexpect 1\nexpect 2 $\nexpect 3 00\nno_packet");
    let pattern = |at: usize| match &statements[at] {
        Statement::Expect { pattern, .. } => pattern.as_ref().map(ToString::to_string),
        other => panic!("{other:?}"),
    };
    assert_eq!(pattern(0).unwrap(), "0A***1$");
    assert_eq!(pattern(1), None);
    assert_eq!(pattern(2).unwrap(), "$");
    assert_eq!(pattern(3).unwrap(), "00");
    assert!(matches!(statements[4], Statement::NoPacket));
}

#[test]
fn an_entry_has_priority_keys_action_and_label() {
    let text = "add ingress.t 100 hdr.a.x:0x0a/8 s[1].y:0x1&&&0xf \"a b\":1->5 z:*\n  \
                act(port:1, v:0x2) = $e\nadd t x:0b1 c.nop()";
    let statements = kinds(text);
    let Statement::Add { entry, target, label } = &statements[0] else { panic!("{statements:?}") };
    let keys: Vec<&str> = entry.keys.iter().map(|(name, _)| name.text.as_str()).collect();
    assert_eq!((entry.table.text.as_str(), entry.priority), ("ingress.t", Some(100)));
    assert_eq!(keys, ["hdr.a.x", "s[1].y", "a b", "z"]);
    let args: Vec<&str> = target.args.iter().map(|(name, _)| name.text.as_str()).collect();
    assert_eq!((target.action.text.as_str(), &args[..]), ("act", &["port", "v"][..]));
    assert_eq!(label.as_deref(), Some("e"));
    let Statement::Add { entry, target, .. } = &statements[1] else { panic!("{statements:?}") };
    assert_eq!((entry.priority, entry.keys.len()), (None, 1));
    assert_eq!(target.action.text, "c.nop");
}

#[test]
fn every_command_is_read() {
    let text = "packet 0 00\nexpect 0\nno_packet\nadd t x:1 a()\nsetdefault t a()\nremove all\n\
                remove t 1 x:1\nwait\ncheck_counter c(1) packets >= 2\ncheck_counter c($e)\n\
                counter_read c 1\ncounter_write c 1 2 3\ncheck_register r(1) == 2\nregister_read r\n\
                register_read r 1\nregister_write r 1 2\nregister_reset r\nmeter_get_rates m 1\n\
                meter_set_rates m 1 0.5:1 2:3\nmeter_array_set_rates m 1:1 2:2\nmirroring_add 1 2\n\
                table_indirect_add t 5 x:1 0\ntable_indirect_add_with_group t x:1 0\n\
                table_indirect_set_default t 0\ntable_indirect_set_default_with_group t 0\n\
                act_prof_create_member p a(x:1)\nact_prof_modify_member p 0 a(x:1)\n\
                act_prof_delete_member p 0\nact_prof_create_group p\nact_prof_delete_group p 0\n\
                act_prof_add_member_to_group p 0 0\nact_prof_remove_member_from_group p 0 0\n\
                pvs_add v 1 0x**00 1->2\npvs_remove v 1\npvs_clear v\npvs_get v\n\
                mirroring_add_mc 1 2\nmirroring_get 1\nmirroring_delete 1\nmc_mgrp_create 1\n\
                mc_node_create 0 1 2 3\nmc_node_update 0 1\nmc_node_associate 1 0\n\
                mc_node_dissociate 1 0\nmc_node_destroy 0\nmc_mgrp_destroy 1\nmirroring_add 1 2 64\n\
                expect_digest d 1 0x2\nport_metadata 1 0011 22\nexclusion 1 2 3\nlink_down 1\n\
                loopback 4 5\ndeflect_on_drop 6\n\
                link_up 1\npktgen_once 0 5 1 2 00\npktgen_every 1 5 1 2 00\n\
                pktgen_port_down 2 1 2 00\npktgen_recirculated 3 0xff 0xff 1 2 00 11\n\
                lpf_set f 1 average 2 3 4\nlpf_set f e rate 2 3\nwred_set w 1 2 3 4 50\n";
    assert_eq!(kinds(text).len(), 61);
    for name in super::names() {
        assert!(
            text.contains(&format!("{name}\n")) || text.contains(&format!("{name} ")),
            "{name}"
        );
    }
}

#[test]
fn errors_are_reported_with_their_position() {
    for (text, message) in [
        ("expct 1 00", "1:1: `expct` is not a command: the commands are packet, expect,"),
        ("packet 1 00\nexpct 1 00", "2:1: `expct` is neither a command nor bytes"),
        ("add t x:1 a()\naddd t", "2:1: `addd` is not a command"),
        ("packet", "1:7: expected a port after this"),
        ("packet 512 00", "1:8: port 512 does not exist: ports are 0 to 511"),
        ("packet x 00", "1:8: `x` is not a number"),
        ("packet 1", "1:9: expected the bytes of the packet"),
        ("packet 1 0x00", "1:10: `0x00` is not a byte of a packet: write digits without 0x"),
        ("packet 1 0**0", "1:10: `0**0` has a `*`"),
        ("packet 1 00 0", "1:10: the packet has 3 hexadecimal digits"),
        ("expect 1 00$ 01", "1:14: `01` is too much here"),
        ("expect 1 0$0", "1:10: `0$0` has a `$` that does not end the packet"),
        ("  add t x:1 a(", "1:15: expected an argument"),
        ("add t x:1 a(p:1 q:2)", "1:17: expected `,` or `)`, found `q`"),
        ("add t x:1", "1:10: expected an action, such as"),
        ("add t x:0xzz a()", "1:9: `z` is not a digit of `0xzz`"),
        ("add t x:0x**/8 a()", "1:14: a value with a prefix length has no `*`"),
        ("add t x:1 a(p:0x*)", "1:15: an argument has no `*`"),
        ("add 1", "1:5: expected the name of a table, found `1`"),
        ("check_counter c(1) things == 1", "1:20: expected `packets` or `bytes`, found `things`"),
        ("check_counter c(1) bytes 1", "1:26: expected one of == != < <= > >=, found `1`"),
        ("meter_set_rates m 0 1:1", "1:24: expected a rate and a burst"),
        ("table_indirect_add t x:1", "1:25: expected the number of a member"),
        ("mc_mgrp_create 70000", "1:16: this is too large for the number of a multicast group"),
        ("add \"t x:1 a()", "1:5: a quoted name does not end"),
        ("add t; x:1 a()", "1:6: `;` means nothing here"),
        ("wait 5", "1:6: `5` is too much here"),
        ("port_metadata 1 001122334455667788", "1:17: a port has 8 bytes of metadata, not 9"),
        ("pktgen_once 256 1 1 1 00", "1:13: this is too large for the number of an application"),
        ("pktgen_port_down 1 1 1", "1:23: expected the bytes of the packet"),
        ("lpf_set f 1 sum 1 1", "1:13: expected `average` or `rate`, found `sum`"),
        ("expect_digest d 0x*0", "1:17: a value has no `*`"),
    ] {
        let said = error(text);
        assert!(said.starts_with(message), "{text}\n  said: {said}\n  wanted: {message}");
    }
}

/// Random sequences of tokens, which reach deeper into the parser than random characters.
fn pieces() -> impl Strategy<Value = String> {
    let words = super::names().chain([
        "\n", "\n", " ", ":", ".", ",", "(", ")", "[", "]", "=", "==", "<", "/", "&&&", "->", "..",
        "*", "$", "\"", "#", "0x1f", "0x**", "0b1", "12", "t", "a.b", "s$0.x", "00ff", "all",
        "packets", "average", "rate", "é", "\u{0}",
    ]);
    let word = prop::sample::select(words.collect::<Vec<_>>());
    prop::collection::vec(word, 0..40).prop_map(|words| words.join(" "))
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in prop_oneof![any::<String>(), pieces()]) {
        if let Err(error) = Script::parse(&text) {
            let lines = text.lines().count().max(1) as u32;
            prop_assert!((1..=lines).contains(&error.place.line), "{error}");
            prop_assert!(error.place.column >= 1);
        }
    }
}

#[test]
fn a_script_of_settings_configures_a_switch_for_tna() {
    let text = "port_metadata 3 0102\nexclusion 5 1 2\nloopback 9 10\ndeflect_on_drop 4\n\
                pktgen_every 4 100 1 2 AB";
    let config = Script::parse(text).unwrap().tofino().unwrap();
    assert_eq!(config.port_metadata.get(&3), Some(&[1, 2, 0, 0, 0, 0, 0, 0]));
    assert_eq!(config.exclusions.get(&5), Some(&vec![1, 2]));
    assert_eq!((config.loopback, config.deflection), ([9, 10].into(), Some(4)));
    assert_eq!((config.generator[0].id, config.generator[0].packets), (4, 2));
    for (text, message) in [
        ("exclusion 5 1\nwait", "2:1: only port_metadata, exclusion, loopback,"),
        ("link_down 1", "1:1: only port_metadata"),
        ("loopback 9\nloopback 1 192", "2:1: port 192 is the controller's"),
        ("pktgen_every 9 1 1 1 00", "1:1: application 9 of the generator does not exist"),
        ("pktgen_once 0 1 0 1 00", "1:1: application 0 of the generator has a number of batches"),
    ] {
        let said = Script::parse(text).unwrap().tofino().unwrap_err().to_string();
        assert!(said.starts_with(message), "{text}\n  said: {said}");
    }
}
