//! The documentation's sequence charts equal those of the runs.
//!
//! `TRIBUTARY_CHARTS=write cargo test -p tributary-sim --test systems charts` rewrites them.

use std::path::Path;
use std::{env, fs};

use crate::{courses, walks};

#[test]
fn charts_of_the_documentation_equal_those_of_runs() {
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/images");
    let write = env::var("TRIBUTARY_CHARTS").is_ok_and(|value| value == "write");
    let esa = walks::all().into_iter().map(|walk| (walk.name, walk.chart()));
    let p4inc = courses::all().into_iter().map(|course| (course.name, course.chart()));
    for (name, chart) in esa.chain(p4inc) {
        let path = images.join(format!("{name}.svg"));
        let drawn = chart.to_svg();
        if write {
            fs::write(&path, &drawn).unwrap();
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == drawn,
            "docs/images/{name}.svg is not what the run gives; write it anew with TRIBUTARY_CHARTS=write"
        );
    }
}
