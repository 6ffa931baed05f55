//! Graphs of parsers and controls.

use tributary_p4::graph::{Graph, NodeKind};

fn graphs(locals: &str, body: &str) -> Vec<Graph> {
    let text = crate::common::program("", locals, body);
    let compiled = tributary_p4::compile_text("t.p4", &text, &[]);
    Graph::of(&compiled.unwrap_or_else(|d| panic!("{}", d.render(false))).program)
}

fn ingress(locals: &str, body: &str) -> Graph {
    let mut all = graphs(locals, body);
    all.retain(|graph| graph.name == "I");
    all.pop().expect("ingress does something")
}

/// Edges as `from -label-> to`, with the first lines of nodes.
fn edges(graph: &Graph) -> Vec<String> {
    let name = |node: usize| graph.nodes[node].lines[0].as_str();
    let mut edges: Vec<String> = graph
        .edges
        .iter()
        .map(|edge| format!("{} -{}-> {}", name(edge.from), edge.label, name(edge.to)))
        .collect();
    edges.sort();
    edges
}

#[test]
fn branches_meet_again() {
    let graph = ingress(
        "table t { key = { meta.x : exact; } actions = { NoAction; } }",
        "meta.x = 1; meta.y = 2; if (meta.z == 44) { t.apply(); } else if (meta.x < 2) { return; } meta.z = 4;",
    );
    let expected = [
        "I.t --> meta.z = 4",
        "meta.x < 2 -no-> meta.z = 4",
        "meta.x < 2 -yes-> end",
        "meta.x = 1 --> meta.z == 44",
        "meta.z = 4 --> end",
        "meta.z == 44 -no-> meta.x < 2",
        "meta.z == 44 -yes-> I.t",
        "start --> meta.x = 1",
    ];
    assert_eq!(edges(&graph), expected);
    let statements = graph.nodes.iter().find(|node| node.kind == NodeKind::Statements).unwrap();
    assert_eq!(statements.lines, ["meta.x = 1", "meta.y = 2"]);
    let table = graph.nodes.iter().find(|node| node.kind == NodeKind::Table).unwrap();
    assert_eq!(table.lines, ["I.t", "meta.x: exact", "→ NoAction (default)"]);
}

#[test]
fn a_switch_names_actions() {
    let graph = ingress(
        "action a() { meta.x = 1; } action b() { meta.x = 2; }
         table t { key = { meta.x : exact; } actions = { a; b; } default_action = b(); }",
        "switch (t.apply().action_run) { a: { meta.y = 1; } default: { exit; } } meta.z = 5;",
    );
    let labels: Vec<&str> = graph.edges.iter().map(|edge| edge.label.as_str()).collect();
    assert!(labels.contains(&"a") && labels.contains(&"default"), "{labels:?}");
    assert!(edges(&graph).iter().any(|edge| edge.ends_with("-default-> end")), "exit");
}

#[test]
fn a_loop_leads_back() {
    let graph =
        ingress("", "for (bit<32> i = 0; i < 9; i = i + 1) { if (i == meta.x) { break; } }");
    let edges = edges(&graph);
    assert!(
        edges.iter().any(|edge| edge.contains("--> loop") && !edge.contains("i = 0")),
        "{edges:?}"
    );
    assert!(edges.iter().any(|edge| edge.ends_with("-> end")), "{edges:?}");
}

#[test]
fn many_statements_are_counted() {
    let body: String = (0..20).map(|n| format!("meta.x = {n}; ")).collect();
    let graph = ingress("", &body);
    assert_eq!(graph.nodes.len(), 3);
    assert_eq!(graph.nodes[1].lines.last().unwrap(), "… and 15 more");
}

/// In the graphs of our own programs, each node is reachable, leads to an end, and has text.
#[test]
fn graphs_are_whole() {
    let sources = tributary_p4::Sources::disk();
    for program in ["v1model/atp", "v1model/esa", "v1model/p4inc", "v1model/switchml", "tna/atp"] {
        let path = format!("{}/../../p4src/{program}.p4", env!("CARGO_MANIFEST_DIR"));
        let compiled = tributary_p4::compile(&sources, &path, &[]).unwrap();
        let graphs = Graph::of(&compiled.program);
        assert!(graphs.len() >= 5, "{program}");
        for graph in graphs {
            for (number, node) in graph.nodes.iter().enumerate() {
                assert!(!node.lines.is_empty(), "{program} {}", graph.name);
                let ends = node.kind == NodeKind::Terminal && number > 0;
                let leaves = graph.edges.iter().any(|edge| edge.from == number);
                assert_eq!(ends, !leaves, "{program} {} {:?}", graph.name, node.lines);
                let reached = graph.edges.iter().any(|edge| edge.to == number);
                assert_eq!(reached, number > 0, "{program} {} {:?}", graph.name, node.lines);
            }
            let dot = graph.to_dot();
            assert_eq!(dot.matches("shape=").count(), graph.nodes.len());
            assert_eq!(dot.matches(" -> ").count(), graph.edges.len());
        }
    }
}
