//! Programs generated from the grammar. Programs without errors compile. Programs with errors are
//! rejected with a position for each error, and nothing panics.
//!
//! `TRIBUTARY_PROGRAMS=N` generates N programs of each kind (for long runs). `TRIBUTARY_SEED=N`
//! generates and prints only the program with this seed.

mod draw;
mod expressions;
mod statements;

use std::env;

use draw::Draw;
use tributary_p4::{Severity, compile_text};

/// Number of programs of each kind in a default run.
const PROGRAMS: u64 = 120;

fn seeds() -> std::ops::Range<u64> {
    let number = |name| env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    match (number("TRIBUTARY_SEED"), number("TRIBUTARY_PROGRAMS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, programs) => 0..programs.unwrap_or(PROGRAMS),
    }
}

/// Prints the program if a seed was requested.
fn show(text: &str) {
    if env::var("TRIBUTARY_SEED").is_ok() {
        println!("{text}");
    }
}

#[test]
fn programs_without_mistakes_compile() {
    for seed in seeds() {
        let text = Draw::new(seed, 0).program();
        show(&text);
        if let Err(errors) = compile_text("drawn.p4", &text, &[]) {
            panic!("seed {seed}:\n{}", errors.render(false));
        }
    }
}

#[test]
fn mistakes_have_a_place_and_nothing_panics() {
    let mut refused = 0;
    for seed in seeds() {
        // From one error per program to one per line.
        let often = [400, 120, 40, 12][seed as usize % 4];
        let text = Draw::new(seed, often).program();
        show(&text);
        let lines = text.lines().count();
        let Err(errors) = compile_text("drawn.p4", &text, &[]) else { continue };
        refused += 1;
        assert!(errors.iter().any(|d| d.severity == Severity::Error), "seed {seed}");
        for d in &errors {
            assert!(!d.file.is_empty() && !d.message.is_empty(), "seed {seed}: {d}");
            let there = d.file != "drawn.p4" || d.line as usize <= lines.max(1);
            assert!(d.line >= 1 && d.column >= 1 && there, "seed {seed}: {d}");
            assert!(d.source_line.get(d.underline.clone()).is_some(), "seed {seed}: {d}");
        }
        assert!(!errors.render(false).is_empty());
    }
    let all = seeds();
    assert!(refused > 0 || all.end - all.start < 4, "no mistake was found");
}
