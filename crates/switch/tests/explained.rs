//! Traces against expectations that do not come from the tracer: the frames of switches without traces,
//! the lines of the source, and the entries of the scripts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tributary_p4::ir::Stmt;
use tributary_p4::{Compilation, Options, Sources, compile, compile_text};
use tributary_p4runtime::p4::v1::ForwardingPipelineConfig;
use tributary_switch::Forwarding;
use tributary_switch::explained::{Explained, Explainer, Kind, Node, Refused, json, text};
use tributary_switch::stf::Script;

const FORK: &str = include_str!("fork.p4");

const MEMBERS: &str = "
    act_prof_create_member spread send(to:2)
    act_prof_create_member spread send(to:3)
    act_prof_create_member spread send(to:4)
    act_prof_create_group spread
    act_prof_add_member_to_group spread 0 0
    act_prof_add_member_to_group spread 1 0
    act_prof_add_member_to_group spread 2 0
    table_indirect_add_with_group paths tag:1 0
";

const COPIES: &str = "
    mirroring_add 5 7
    mc_mgrp_create 3
    mc_node_create 9 2 4
    mc_node_associate 3 0
";

fn fork(script: &str) -> Explainer {
    let compiled = compile_text("fork.p4", FORK, Options::marked(&[]));
    let compiled = compiled.unwrap_or_else(|errors| panic!("{errors}"));
    Explainer::new(compiled, Script::parse(script).unwrap())
}

/// What leaves, with the port, in the order of the tree.
fn sent(node: &Node) -> Vec<(u64, String)> {
    let sent = node.all().filter(|node| node.kind == Kind::Sent);
    let of = |node: &Node| {
        let port = node.fact("port").and_then(|port| port.as_u64()).unwrap();
        (port, node.fact("bytes").and_then(|bytes| bytes.as_str()).unwrap().to_owned())
    };
    sent.map(of).collect()
}

fn kinds(node: &Node, kind: Kind) -> Vec<&Node> {
    node.all().filter(|node| node.kind == kind).collect()
}

/// What leaves a switch without traces.
fn untraced(
    compiled: &Compilation,
    script: &Script,
    port: u16,
    frame: &[u8],
) -> Vec<(u64, String)> {
    let Compilation { program, p4info, .. } = compiled;
    let config = ForwardingPipelineConfig { p4info: Some(p4info.clone()), ..Default::default() };
    let forwarding = Forwarding::load(program.clone(), config).unwrap();
    let (mut switch, now) = tributary_switch::stf::prepare(script, forwarding).unwrap();
    let cpu = u64::from(switch.cpu_port());
    let hex = |frame: &[u8]| frame.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    switch.receive(now, port, frame);
    let (mut all, mut out) = (Vec::new(), Vec::new());
    for _ in 0..10_000 {
        for port in 0..511 {
            while switch.transmit(now, port, &mut out) {
                all.push((u64::from(port), hex(&out)));
            }
        }
        let more = switch.run_pending(now, 1);
        while let Some(frame) = switch.poll_packet_in() {
            all.push((cpu, hex(&frame)));
        }
        if !more && (0..511).all(|port| switch.queue_depth(port) == 0) {
            break;
        }
    }
    all.sort();
    all
}

#[test]
fn every_member_of_a_group_is_an_outcome_and_the_packet_takes_one() {
    let one = fork(MEMBERS).explain(1, &[1, 7, 0, 0]).unwrap();
    assert_eq!((one.ways, one.cut), (1, false));
    let [(taken, _)] = sent(&one.tree)[..] else { panic!("{:?}", sent(&one.tree)) };

    let mut all = fork(MEMBERS);
    all.follow_members();
    let all = all.explain(1, &[1, 7, 0, 0]).unwrap();
    assert_eq!((all.ways, all.cut), (3, false));
    let ports: Vec<u64> = sent(&all.tree).into_iter().map(|(port, _)| port).collect();
    assert_eq!(ports, [2, 3, 4]);
    let outcomes = kinds(&all.tree, Kind::Outcome);
    let picked = outcomes.iter().filter(|node| node.text.contains("this packet's hash picks"));
    let picked: Vec<&str> = picked.map(|node| node.text.as_str()).collect();
    assert_eq!(picked.len(), 1);
    assert!(picked[0].contains(&format!("to = {taken}")), "{picked:?}");
}

#[test]
fn ways_beyond_the_limit_are_left_out_and_that_is_told() {
    let mut all = fork(MEMBERS);
    all.follow_members();
    all.limit(2);
    let all = all.explain(1, &[1, 7, 0, 0]).unwrap();
    assert_eq!((all.ways, all.cut), (2, true));
    assert_eq!(sent(&all.tree).len(), 2);
}

#[test]
fn each_action_of_a_table_with_unknown_entries_is_an_outcome() {
    let mut explainer = fork(COPIES);
    explainer.forget("plain").unwrap();
    // Kind 2: the table `plain` decides, whose actions are to_port, both and drop.
    let Explained { tree, ways, .. } = explainer.explain(1, &[2, 0, 0, 0]).unwrap();
    let fork = kinds(&tree, Kind::Fork);
    assert_eq!(fork.len(), 1);
    let texts: Vec<&str> = fork[0]
        .children
        .iter()
        .map(|node| node.fact("action").unwrap().as_str().unwrap())
        .collect();
    assert_eq!(
        texts,
        ["Inbound.to_port(to = 0)", "Inbound.both()", "Inbound.drop()", "Inbound.drop()"]
    );
    assert_eq!(ways, 4);
    // Each outcome has its own end.
    let ends: Vec<usize> = fork[0].children.iter().map(|node| sent(node).len()).collect();
    assert_eq!(ends, [1, 3, 0, 0]);
    // What follows is within the outcome, and not within what happens to be open there.
    let direct = |node: &Node, kind| node.children.iter().filter(|node| node.kind == kind).count();
    let first = &fork[0].children[0];
    assert_eq!(
        [Kind::Table, Kind::Verdict, Kind::Egress, Kind::Sent].map(|k| direct(first, k)),
        [2, 1, 1, 1]
    );
    let egress = first.children.iter().find(|node| node.kind == Kind::Egress).unwrap();
    assert_eq!(direct(egress, Kind::Control), 3);
    // The table is not touched: without the assumption, there is still nothing in it.
    let tables = kinds(&tree, Kind::Table);
    let plain = tables.into_iter().filter(|node| node.fact("table").unwrap() == "Inbound.plain");
    let hits: Vec<&str> =
        plain.map(|node| node.fact("outcome").unwrap().as_str().unwrap()).collect();
    assert_eq!(hits, ["assumed entry", "assumed entry", "assumed entry", "assumed miss"]);
}

#[test]
fn two_choices_make_all_pairs_of_outcomes() {
    let mut explainer = fork(MEMBERS);
    explainer.forget("plain").unwrap();
    // Without the members of the group, these are the ways: kind 1 passes the group, and then `plain`
    // if the tag's second byte is 9.
    assert_eq!(explainer.explain(1, &[1, 9, 0, 0]).unwrap().ways, 4);
    explainer.follow_members();
    let explained = explainer.explain(1, &[1, 9, 0, 0]).unwrap();
    assert_eq!(explained.ways, 3 * 4);
    assert_eq!(kinds(&explained.tree, Kind::Fork).len(), 1 + 3);
}

#[test]
fn copies_have_nodes_of_their_own() {
    let script = COPIES.to_owned() + "add plain tag:2 both()";
    let explained = fork(&script).explain(1, &[2, 0, 0, 0]).unwrap();
    let copies: Vec<&str> = kinds(&explained.tree, Kind::Copy)
        .iter()
        .map(|node| node.fact("why").unwrap().as_str().unwrap())
        .collect();
    assert_eq!(
        copies,
        [
            "clone for session 5, after ingress",
            "replica of multicast group 3",
            "replica of multicast group 3"
        ]
    );
    let mut ports: Vec<u64> = sent(&explained.tree).into_iter().map(|(port, _)| port).collect();
    ports.sort_unstable();
    assert_eq!(ports, [2, 4, 7]);
    // Egress has written the replication id into the frame of each replica.
    let frames: BTreeSet<String> =
        sent(&explained.tree).into_iter().map(|(_, frame)| frame).collect();
    assert_eq!(frames, BTreeSet::from(["02000009".to_owned(), "02000000".to_owned()]));
}

#[test]
fn a_drop_names_the_line_that_decided_it() {
    let explained = fork("").explain(1, &[2, 0, 0, 0]).unwrap();
    let drops = kinds(&explained.tree, Kind::Drop);
    assert_eq!(drops.len(), 1);
    let line = FORK.lines().position(|line| line.contains("action drop()")).unwrap() + 1;
    assert_eq!(drops[0].at.as_deref(), Some(format!("fork.p4:{line}").as_str()));
    assert!(drops[0].text.contains("egress_spec"), "{}", drops[0].text);
}

/// The programs and scripts of the packet tests.
fn cases() -> Vec<(PathBuf, PathBuf)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stf/cases");
    let files = directory.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let scripts = files.filter(|path| path.extension().is_some_and(|it| it == "stf"));
    let mut cases: Vec<_> = scripts.map(|path| (path.with_extension("p4"), path)).collect();
    cases.sort();
    assert!(cases.len() > 30);
    cases
}

/// The last part of a name.
fn last(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

#[test]
fn over_all_packet_tests_what_leaves_is_what_leaves_without_a_trace_and_lines_fit() {
    let (mut packets, mut checked) = (0, 0);
    for (program, script) in cases() {
        let name = program.display().to_string();
        let marked = || {
            let compiled = compile(&Sources::disk(), &name, Options::marked(&[]));
            compiled.unwrap_or_else(|e| panic!("{e}"))
        };
        let compiled = marked();
        let text_of = std::fs::read_to_string(&script).unwrap();
        let script = Script::parse(&text_of).unwrap();
        let explainer = Explainer::new(marked(), script.clone());
        for (port, frame) in script.packets().take(12) {
            let explained =
                explainer.explain(port, frame).unwrap_or_else(|e| panic!("{name}: {e}"));
            let mut traced = sent(&explained.tree);
            traced.sort();
            assert_eq!(traced, untraced(&compiled, &script, port, frame), "{name}");
            packets += 1;
            checked += lines_fit(&explained.tree, &name);
            all_forms(&explained.tree);
        }
    }
    assert!(packets > 100 && checked > 1000, "{packets} packets, {checked} lines");
}

/// The source line of each node says what the node says. Returns how many have one.
fn lines_fit(tree: &Node, program: &str) -> usize {
    let mut checked = 0;
    for node in tree.all() {
        let Some((file, line)) = node.at.as_deref().and_then(|at| at.rsplit_once(':')) else {
            continue;
        };
        // A function of the architecture, whose text is built in.
        if file == "psa.p4" {
            continue;
        }
        let source =
            std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{program}: {file}: {e}"));
        let line: usize = line.parse().unwrap();
        let source =
            source.lines().nth(line - 1).unwrap_or_else(|| panic!("{file} has no line {line}"));
        let shows = |what: &str| {
            assert!(source.contains(what), "{file}:{line}: {}\n{source}\n{what}", node.text);
        };
        match node.kind {
            Kind::Table => {
                shows("apply");
                checked += 1;
            }
            Kind::Extract => {
                shows("extract");
                checked += 1;
            }
            Kind::Emit => {
                shows("emit");
                checked += 1;
            }
            Kind::Register => {
                // In TNA the register's action writes, or the register is that of a table's entries.
                if !program.contains("/tna_") {
                    shows(last(node.fact("register").unwrap().as_str().unwrap()));
                }
                checked += 1;
            }
            _ => checked += 1,
        }
    }
    checked
}

/// The text has all nodes, and JSON has what the tree has.
fn all_forms(tree: &Node) {
    let nodes = tree.all().count();
    let whole = text(tree, false, false);
    assert_eq!(whole.lines().count(), nodes);
    assert!(!whole.contains('\x1b'));
    assert!(text(tree, true, false).contains("\x1b["));
    assert!(text(tree, false, true).lines().count() <= nodes);
    let document = json(tree, "a.p4", 1, false);
    assert_eq!(document["version"], tributary_switch::explained::VERSION);
    let mut open = vec![(&document["tree"], tree)];
    while let Some((value, node)) = open.pop() {
        assert_eq!(value["kind"], node.kind.name());
        assert_eq!(value["text"], node.text);
        for (name, fact) in &node.facts {
            assert_eq!(&value[*name], fact);
        }
        let children = value["children"].as_array().cloned().unwrap_or_default();
        assert_eq!(children.len(), node.children.len());
        let pairs = value["children"].as_array().into_iter().flatten().zip(&node.children);
        open.extend(pairs);
    }
}

/// Egress that drops each packet, and clones it to the same port, has no end.
#[test]
fn copies_without_end_are_cut_off() {
    let script = "mirroring_add 6 4\nadd plain tag:2 to_port(to:4)";
    let explained = fork(script).explain(1, &[2, 0xee, 0, 0]);
    assert!(matches!(explained, Err(Refused::Endless)) || explained.is_ok_and(|one| one.cut));
}

#[test]
fn what_cannot_be_explained_is_refused_in_one_line() {
    let mut explainer = fork("");
    let refused = explainer.forget("tables").unwrap_err();
    assert!(matches!(refused, Refused::Table(..)) && refused.to_string().contains("Inbound.plain"));
    assert!(matches!(explainer.forget("fixed"), Err(Refused::Constant(_))));
    assert!(matches!(explainer.explain(511, &[0; 4]), Err(Refused::Port(511))));
    let script = "add plain tag:2 to_port(to:1234567)";
    let refused = fork(script).explain(1, &[0; 4]).unwrap_err();
    assert!(matches!(refused, Refused::Entries(_)), "{refused}");
    assert_eq!(refused.to_string().lines().count(), 1);
}

#[test]
fn the_documentation_names_every_kind() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/trace.md");
    let documented = std::fs::read_to_string(path).unwrap();
    for kind in Kind::ALL {
        assert!(documented.contains(&format!("`{}`", kind.name())), "{}", kind.name());
    }
}

/// Statements without marks.
fn strip(body: &mut Vec<Stmt>) {
    body.retain(|stmt| !matches!(stmt, Stmt::Mark(_)));
    for stmt in body {
        match stmt {
            Stmt::If { then, otherwise, .. } => {
                strip(then);
                strip(otherwise);
            }
            Stmt::Switch { cases, default, .. } => {
                cases.iter_mut().for_each(|(_, case)| strip(case));
                strip(default);
            }
            Stmt::Block(inner) | Stmt::Loop(_, inner) | Stmt::Labelled(_, inner) => strip(inner),
            _ => {}
        }
    }
}

#[test]
fn marks_change_nothing_else_in_a_program() {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4src");
    let ours = ["v1model", "tna"].map(|architecture| ours.join(architecture));
    let ours = ours.iter().flat_map(|directory| directory.read_dir().unwrap());
    let ours: Vec<PathBuf> = ours.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(ours.len(), 8);
    for program in cases().into_iter().map(|(program, _)| program).chain(ours) {
        let name = program.display().to_string();
        let plain = tributary_p4::compile(&Sources::disk(), &name, &[]).unwrap().program;
        let marked = compile(&Sources::disk(), &name, Options::marked(&[]));
        let mut marked = marked.unwrap().program;
        assert!(!marked.files.is_empty(), "{name} has no marks");
        marked.files.clear();
        let states = marked.parsers.iter_mut().flat_map(|parser| &mut parser.states);
        states.for_each(|state| strip(&mut state.body));
        marked.controls.iter_mut().for_each(|control| strip(&mut control.body));
        marked.actions.iter_mut().for_each(|action| strip(&mut action.body));
        marked.stateful.iter_mut().for_each(|action| strip(&mut action.body));
        assert!(format!("{plain:?}") == format!("{marked:?}"), "{name}");
    }
}
