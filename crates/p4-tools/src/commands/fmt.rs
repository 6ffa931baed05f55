//! `tributary-p4 fmt`: the white space of P4 files.

use anyhow::{Context, Result, bail};
use tributary_p4::SOURCE;

use crate::args::FmtArgs;

/// Formats files in place, or lists those that would change.
///
/// # Errors
/// If a file cannot be read or written, or would change with `--check`.
pub(crate) fn run(args: &FmtArgs) -> Result<()> {
    let mut differ = 0usize;
    for path in &args.files {
        let shown = path.display();
        let bytes = SOURCE.read(path).with_context(|| format!("cannot read {shown}"))?;
        let text = String::from_utf8(bytes);
        let text = text.with_context(|| format!("{shown} is not UTF-8 text"))?;
        let formatted = tributary_p4::format(&text);
        if formatted == text {
            continue;
        }
        differ += 1;
        if args.check {
            tributary_base::program::print(&shown.to_string())?;
        } else {
            super::write(path, formatted.as_bytes())?;
        }
    }
    match differ {
        1 if args.check => bail!("1 file is not formatted: call tributary p4 fmt without --check"),
        2.. if args.check => {
            bail!("{differ} files are not formatted: call tributary p4 fmt without --check")
        }
        _ => Ok(()),
    }
}
