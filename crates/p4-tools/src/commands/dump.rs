//! `tributary-p4 check --dump`: the program after a pass.

use anyhow::{Result, bail};
use tributary_dataplane::Pipeline;
use tributary_p4::Pass;

use super::{Style, compile_in, fail, must_be_there, parse_defines, sources};
use crate::args::P4Args;

/// The pass of the engine, after those of the front end.
const CODE: (&str, &str) = ("code", "the operations that the interpreter runs");

pub(super) fn run(args: &P4Args, pass: &str, style: Style) -> Result<()> {
    if pass == "list" {
        return tributary_base::program::print(&list());
    }
    let text = match Pass::named(pass) {
        Some(pass) => {
            must_be_there(&args.file)?;
            let (defines, name) = (parse_defines(&args.defines)?, args.file.display().to_string());
            tributary_p4::dump(&sources(args), &name, &defines, pass)
                .or_else(|diagnostics| fail(&args.file, &diagnostics, style))?
        }
        None if pass == CODE.0 => {
            let program = compile_in(args, false, style)?.program;
            Pipeline::load(program)?.listing()?
        }
        None => {
            let known: Vec<&str> = passes().map(|(name, _)| name).collect();
            bail!("--dump {pass}: the passes are {}, and `list` describes them", known.join(", "));
        }
    };
    tributary_base::program::print(text.trim_end())
}

fn passes() -> impl Iterator<Item = (&'static str, &'static str)> {
    Pass::ALL.into_iter().map(|pass| (pass.name(), pass.about())).chain([CODE])
}

fn list() -> String {
    let lines: Vec<String> = passes().map(|(name, about)| format!("{name:8}{about}")).collect();
    lines.join("\n")
}
