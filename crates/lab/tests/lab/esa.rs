//! `tributary-lab sim esa`: the figures of ESA's paper.

use std::fs;

use crate::command::{fail, succeed};

#[test]
fn the_figures_of_esa_are_made_by_packets_and_an_interrupted_command_goes_on() {
    for (option, line) in [("--seeds", "--seeds 0"), ("--iterations", "--iterations 0")] {
        let refused = fail(&["sim", "esa", option, "0"]);
        assert!(refused.contains(&format!("{line}: choose 1 to")), "{refused}");
    }
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().display().to_string();
    let args = ["sim", "esa", "--figure", "10", "--quick", "--out", &out];
    let shown = succeed(&args);
    assert!(shown.contains("ESA / ATP") && shown.contains("SwitchML"), "{shown}");
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    // Verdicts first, then set-ups, then the figure.
    for text in [&shown, &read("index.html")] {
        let parts = ["The paper's claims, with verdicts", "Set-ups of the figures", "Figure 10"];
        let places = parts.map(|part| text.find(part).unwrap_or_else(|| panic!("{part}: {text}")));
        assert!(places.is_sorted(), "{places:?}");
    }
    let page = read("index.html");
    assert!(page.contains("<svg"), "a chart on the page");
    assert!(page.contains("QUICK TEST"), "the numbers mean little");
    let rows = read("figure-10.csv");
    assert_eq!(rows.lines().count(), 3, "{rows}");
    for column in
        ["\"ESA / ATP, ± 95 %\"", "\"ESA / ATP, the paper\"", "\"ESA / SwitchML, the paper\""]
    {
        assert!(rows.lines().next().unwrap().contains(column), "{column}: {rows}");
    }
    assert!(rows.contains("1.45") && rows.contains("2.27"), "{rows}");
    // Four numbers of the paper, and two comparisons of the models. One seed decides nothing.
    let claims = read("claims.csv");
    assert!(
        claims.starts_with("section,claim,the paper,verdict,ours,\"ours, ± 95 %\",where,"),
        "{claims}"
    );
    assert_eq!(claims.lines().count(), 1 + 6, "{claims}");
    assert_eq!(claims.matches(",undecided,").count(), 6, "{claims}");
    assert!(read("set-ups.csv").contains("memory for aggregators,5 MB"));
    assert!(read("figure-10-1.svg").contains("utilisation"));
    assert!(read("figure-10-3.svg").contains("the paper: ESA / SwitchML"), "ratios");
    let picture = fs::read(dir.path().join("figure-10-1.png")).unwrap();
    assert!(picture.starts_with(b"\x89PNG\r\n\x1a\n"), "{} bytes", picture.len());
    // Six experiments; without the last two lines, four are still known.
    let results = read("measured.jsonl");
    let lines: Vec<&str> = results.lines().collect();
    assert_eq!(lines.len(), 1 + 6);
    fs::write(dir.path().join("measured.jsonl"), lines[..5].join("\n") + "\n").unwrap();
    assert_eq!(succeed(&args), shown);
    assert_eq!(read("figure-10.csv"), rows);
    assert_eq!(read("measured.jsonl").lines().count(), 1 + 6);
}
