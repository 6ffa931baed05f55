//! The sequence charts of the documentation are what the runs give.
//!
//! `TRIBUTARY_CHARTS=write cargo test -p tributary-sim --test systems charts` writes them anew.

use std::path::Path;
use std::{env, fs};

use crate::walks::all;

#[test]
fn charts_of_the_documentation_are_what_runs_give() {
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/images");
    let write = env::var("TRIBUTARY_CHARTS").is_ok_and(|value| value == "write");
    for walk in all() {
        let path = images.join(format!("{}.svg", walk.name));
        let drawn = walk.chart().to_svg();
        if write {
            fs::write(&path, &drawn).unwrap();
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == drawn,
            "docs/images/{}.svg is not what the run gives; write it anew with TRIBUTARY_CHARTS=write",
            walk.name
        );
    }
}
