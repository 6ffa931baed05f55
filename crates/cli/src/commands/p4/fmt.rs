//! `tributary p4 fmt`: the white space of P4 files.

use std::io::Write as _;
use std::path::Path;

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
            crate::print(&shown.to_string())?;
        } else {
            replace(path, &formatted)?;
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

/// Replaces a file at once, so that a full disk does not cost its contents.
fn replace(path: &Path, text: &str) -> Result<()> {
    let failed = || format!("cannot write {}", path.display());
    // A link stays one.
    let path = path.canonicalize().with_context(failed)?;
    let mode = path.metadata().with_context(failed)?.permissions();
    let folder = path.parent().unwrap_or(Path::new("/"));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = folder.join(format!(".{name}.{}", std::process::id()));
    let written = std::fs::File::create_new(&new).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.set_permissions(mode)?;
        std::fs::rename(&new, &path)
    });
    if written.is_err() {
        std::fs::remove_file(&new).ok();
    }
    written.with_context(failed)
}
