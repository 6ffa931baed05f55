//! Completion, with the names of real programs.

use tributary_client::complete::complete;
use tributary_client::names::Names;

use crate::device::{FEATURES, TABLES};

fn names(source: &str) -> Names {
    Names::new(tributary_p4::compile_text("program.p4", source, &[]).unwrap().p4info)
}

#[test]
fn every_word_of_an_entry_is_completed() {
    let names = names(TABLES);
    let words = |line: &str| complete(&names, line).1;
    assert!(words("").contains(&"tables".to_owned()));
    assert_eq!(words("des"), ["describe"]);
    assert_eq!(words("add exa"), ["exact_table"]);
    assert_eq!(words("add exact_table a"), ["a=", "answer"]);
    assert!(!words("add exact_table a=1 ").contains(&"a=".to_owned()));
    assert_eq!(words("add exact_table a=1 b=2 pa"), ["pair"]);
    assert_eq!(words("add exact_table a=1 b=2 pair "), ["unused=", "value="]);
    assert_eq!(words("add exact_table a=1 b=2 -> pair(unused=1, "), ["value="]);
    assert_eq!(words("default exact_table mi"), ["miss"]);
    assert!(words("add ternary_table ").contains(&"priority=".to_owned()));
    assert!(!words("add exact_table ").contains(&"priority=".to_owned()));
    assert_eq!(words("counter se"), ["seen"]);
    assert_eq!(words("register "), ["last"]);
    assert_eq!(words("pipeline s"), ["set"]);
    assert_eq!(words("nothing "), Vec::<String>::new());
    assert_eq!(complete(&names, "add exa").0, 4, "the word begins behind the blank");
}

#[test]
fn profiles_complete_members_and_sets() {
    let names = names(FEATURES);
    let words = |line: &str| complete(&names, line).1;
    assert!(words("add profiled key=1 m").contains(&"member=".to_owned()));
    assert!(words("add selected key=1 answer value=1 ").contains(&"and".to_owned()));
    assert_eq!(words("add selected key=1 answer value=1 and ans"), ["answer"]);
    assert_eq!(words("member add sp"), ["spread"]);
    assert!(words("member add spread 1 an").contains(&"answer".to_owned()));
    assert_eq!(words("valueset add special "), words("valueset add special "));
}
