//! `tributary-p4 trace`: explains a packet.

use std::io::IsTerminal;

use anyhow::{Context, Result, anyhow, bail};
use tributary_switch::explained::{Explained, Explainer, Refused, json, text};
use tributary_switch::stf::Script;

use super::stf::SCRIPT;
use crate::args::{TraceArgs, TraceFormat};

/// Longest packet, in bytes: as long as an IPv4 packet can be.
const LONGEST: usize = 65_535;

/// Explains a packet.
///
/// # Errors
/// One line that describes the problem.
pub(crate) fn run(args: &TraceArgs) -> Result<()> {
    let frame = packet(&args.packet)?;
    let script = match &args.entries {
        Some(path) => {
            let shown = path.display();
            let text = SCRIPT.read(path).with_context(|| format!("cannot read {shown}"))?;
            let script = Script::parse(&String::from_utf8_lossy(&text));
            script.map_err(|error| anyhow!("{shown}:{error}"))?
        }
        None => Script::parse("").expect("nothing is a script"),
    };
    let compiled = super::compile_marked(&args.program)?;
    let mut explainer = Explainer::new(compiled, script);
    for table in &args.unknown {
        explainer.forget(table)?;
    }
    if args.all_outcomes {
        explainer.follow_members();
        if args.entries.is_none() {
            explainer.forget_all();
        }
    }
    explainer.limit(args.max_outcomes as usize);
    let explained = explainer.explain(args.port, &frame).map_err(|refused| match refused {
        Refused::Entries(failure) => {
            let file = args.entries.as_ref().map_or(String::new(), |path| {
                format!("{}{}", path.display(), if failure.place.is_some() { ":" } else { ": " })
            });
            anyhow!("{file}{failure}")
        }
        Refused::Program(reason) => anyhow!("{}: {reason}", args.program.file.display()),
        other => anyhow!("{other}"),
    })?;
    if explained.cut {
        eprintln!(
            "not everything is shown: {} outcomes, or more steps than are kept; raise --max-outcomes, \
             or name tables with --unknown instead of all",
            explained.ways
        );
    }
    let shown = show(args, &explained, explainer.program());
    match &args.out {
        None => tributary_base::program::print(shown.trim_end()),
        Some(out) => super::write(out, shown.as_bytes()),
    }
}

fn show(args: &TraceArgs, explained: &Explained, program: &tributary_p4::ir::Program) -> String {
    let Explained { tree, ways, cut } = explained;
    match args.format {
        TraceFormat::Text => {
            let colours = args.out.is_none() && std::io::stdout().is_terminal();
            text(tree, colours, !args.full)
        }
        TraceFormat::Json => {
            let document = json(tree, &program.source, *ways, *cut);
            serde_json::to_string_pretty(&document).expect("a tree of texts is plain data") + "\n"
        }
    }
}

/// The bytes of a packet.
fn packet(text: &str) -> Result<Vec<u8>> {
    let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
    let digits = digits.strip_prefix(&['0', 'x']).unwrap_or(&digits);
    if let Some(at) = digits.iter().position(|digit| !digit.is_ascii_hexdigit()) {
        bail!("--packet: `{}`, character {}, is not a hexadecimal digit", digits[at], at + 1);
    }
    if !digits.len().is_multiple_of(2) {
        bail!("--packet: {} digits are not whole bytes: write two digits for each", digits.len());
    }
    if digits.len() / 2 > LONGEST {
        bail!("--packet: {} bytes are more than {LONGEST}", digits.len() / 2);
    }
    let digit = |digit: &char| digit.to_digit(16).expect("checked above") as u8;
    Ok(digits.chunks(2).map(|pair| digit(&pair[0]) << 4 | digit(&pair[1])).collect())
}
