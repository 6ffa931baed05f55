//! `tributary-p4 dissector`: a dissector for Wireshark.

use anyhow::{Context, Result};
use tributary_p4_tools::dissector::{Options, Place};

use crate::args::DissectorArgs;

/// Generates a dissector.
///
/// # Errors
/// If the program has errors or no parser, or the file cannot be written.
pub(crate) fn run(args: &DissectorArgs) -> Result<()> {
    let file = args.program.file.display().to_string();
    let mut options = Options::for_file(&file);
    if let Some(name) = &args.name {
        options.name.clone_from(name);
    }
    options.check().context("--name")?;
    options.place = match (args.port, args.ethertype, args.ethernet) {
        (Some(port), ..) => Some(Place::Udp(vec![port])),
        (_, Some(number), _) => Some(Place::EtherType(number)),
        (.., true) => Some(Place::Frames),
        _ => None,
    };
    let compilation = super::compile(&args.program)?;
    let dissector = tributary_p4_tools::dissector::generate(&compilation.program, &options)
        .context(file.clone())?;
    for gap in &dissector.gaps {
        eprintln!("warning: the dissector stops early: {gap}");
    }
    match &args.out {
        None => tributary_base::program::print(dissector.text.trim_end()),
        Some(output) => {
            super::write(output, dissector.text.as_bytes())?;
            let (name, place) = (&options.name, &dissector.place);
            tributary_base::program::print(&format!(
                "{}: protocol {name}, for {place}",
                output.display()
            ))
        }
    }
}
