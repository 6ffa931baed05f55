//! `tributary-p4 graph`: parsers and controls in Graphviz's language.

use anyhow::{Context, Result};
use tributary_p4::graph::Graph;

use crate::args::GraphArgs;

/// Writes the graph of each block of a program and names the files.
///
/// # Errors
/// If the program has errors, or the directory cannot be written to.
pub(crate) fn run(args: &GraphArgs) -> Result<()> {
    let out = &args.out;
    tributary_base::output_directory(out)
        .with_context(|| format!("cannot write to {}", out.display()))?;
    let compilation = super::compile(&args.program)?;
    for graph in Graph::of(&compilation.program) {
        let path = out.join(format!("{}.dot", graph.name));
        super::write(&path, graph.to_dot().as_bytes())?;
        tributary_base::program::print(&path.display().to_string())?;
    }
    Ok(())
}
