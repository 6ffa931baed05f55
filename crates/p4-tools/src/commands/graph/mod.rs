//! `tributary-p4 graph`: parsers and controls as SVG.

mod drawing;

use anyhow::{Context, Result};
use tributary_p4::graph::Graph;

use crate::args::GraphArgs;

/// Draws a program's blocks and names the files.
///
/// # Errors
/// If the program has errors, or the directory cannot be written to.
pub(crate) fn run(args: &GraphArgs) -> Result<()> {
    let out = &args.out;
    tributary_base::output_directory(out)
        .with_context(|| format!("cannot write to {}", out.display()))?;
    let compilation = super::compile(&args.program)?;
    for graph in Graph::of(&compilation.program) {
        let (suffix, contents) = match args.dot {
            true => ("dot", graph.to_dot()),
            false => ("svg", drawing::to_svg(&graph)),
        };
        let path = out.join(format!("{}.{suffix}", graph.name));
        super::write(&path, contents.as_bytes())?;
        tributary_base::program::print(&path.display().to_string())?;
    }
    Ok(())
}
