//! Constraints that a program puts on what controllers write, in the language p4-constraints.

use tributary_p4runtime::google::rpc::Code;
use tributary_p4runtime::p4::v1::{
    Entity, FieldMatch, TableAction, TableEntry, Update, field_match, table_action,
};
use tributary_switch::{Forwarding, Switch, SwitchConfig};

use crate::common::*;
use crate::features::{answer, entry, member, set_of};

/// Keys of `aging` need a mask and, for 7, a high priority; the answer 13 is unlucky.
fn restricted() -> String {
    include_str!("programs/features.p4")
        .replace(
            "table aging {",
            "@entry_restriction(\"
                 // Nothing matches everything.
                 hdr.request.key::mask != 0;
                 hdr.request.key == 7 -> ::priority > 3;
             \")
             table aging {",
        )
        .replace("action answer(", "@action_restriction(\"value != 13\") action answer(")
}

fn aging(names: &Names, key: u16, mask: u16, priority: i32, value: u8) -> Entity {
    let bytes = |number: u16| number.to_be_bytes()[usize::from(number < 256)..].to_vec();
    let ternary = field_match::Ternary { value: bytes(key), mask: bytes(mask) };
    let key = FieldMatch {
        field_id: 1,
        field_match_type: Some(field_match::FieldMatchType::Ternary(ternary)),
    };
    table_entry(TableEntry {
        table_id: names.table("TestIngress.aging"),
        r#match: if mask == 0 { Vec::new() } else { vec![key] },
        priority,
        action: Some(TableAction {
            r#type: Some(table_action::Type::Action(answer(names, value))),
        }),
        ..Default::default()
    })
}

fn says(switch: &mut Switch, update: Update, text: &str) {
    let refusal = write(switch, update).unwrap_err();
    assert_eq!(refusal.code, Code::InvalidArgument, "{refusal}");
    assert!(refusal.to_string().ends_with(text), "{refusal}");
}

#[test]
fn entries_fulfil_the_restriction_of_their_table() {
    let mut switch = switch(&restricted(), SwitchConfig::default());
    let names = Names::of(&switch);
    let violates = "violates its @entry_restriction: `hdr.request.key::mask != 0`";
    says(&mut switch, insert(aging(&names, 0, 0, 9, 1)), violates);
    let violates = "violates its @entry_restriction: `hdr.request.key == 7 -> ::priority > 3`";
    says(&mut switch, insert(aging(&names, 7, 0xffff, 3, 1)), violates);
    says(&mut switch, modify(aging(&names, 7, 0xffff, 3, 1)), violates);
    for fine in [aging(&names, 7, 0xffff, 4, 1), aging(&names, 7, 0x00ff, 3, 1)] {
        write(&mut switch, insert(fine.clone())).unwrap();
        write(&mut switch, delete(fine)).unwrap();
    }
}

#[test]
fn arguments_fulfil_the_restriction_of_their_action_wherever_it_is_called() {
    let mut switch = switch(&restricted(), SwitchConfig::default());
    let names = Names::of(&switch);
    let violates = "the arguments violate its @action_restriction: `value != 13`";
    says(&mut switch, insert(aging(&names, 1, 0xffff, 1, 13)), violates);
    write(&mut switch, insert(aging(&names, 1, 0xffff, 1, 12))).unwrap();
    says(&mut switch, modify(aging(&names, 1, 0xffff, 1, 13)), violates);
    says(&mut switch, insert(member(&names, "shared", 1, 13)), violates);
    let set = entry(&names, "selected", 1, set_of(&names, &[(12, 1), (13, 1)]));
    says(&mut switch, insert(set), violates);
    let default = table_entry(TableEntry {
        table_id: names.table("TestIngress.aging"),
        action: Some(TableAction { r#type: Some(table_action::Type::Action(answer(&names, 13))) }),
        is_default_action: true,
        ..Default::default()
    });
    says(&mut switch, modify(default), violates);
}

#[test]
fn a_program_whose_own_entries_violate_a_restriction_is_refused() {
    let program = include_str!("programs/features.p4");
    for (place, annotation) in [
        ("table initial {", "@entry_restriction(\"hdr.request.key > 1\")"),
        ("action answer(", "@action_restriction(\"value != 12\")"),
    ] {
        let wrong = program.replace(place, &format!("{annotation} {place}"));
        let text = Forwarding::from_source(&wrong).unwrap_err().to_string();
        assert!(text.contains("table `TestIngress.initial`: an entry of the program"), "{text}");
    }
}

#[test]
fn a_program_with_a_wrong_restriction_is_refused() {
    let wrong = restricted().replace("key::mask != 0", "key::mask + 0");
    let refusal = Forwarding::from_source(&wrong).unwrap_err();
    let text = refusal.to_string();
    assert!(text.contains("table `TestIngress.aging`: @entry_restriction: 3:"), "{text}");
    assert_eq!(text.lines().count(), 1);
}
