//! Finding and reading files of a bundle.

use std::path::{Path, PathBuf};

use prost::Message;
use tributary_base::FileLimit;
use tributary_p4runtime::p4::config::v1::P4Info;
use tributary_p4runtime::text;

use super::bundle_error;
use crate::error::{Error, one_line};

/// Limit of a bundle's file: pipelines have some MB, and a gRPC message may not be larger.
const BUNDLE: FileLimit = FileLimit::new("file of a pipeline", 256 << 20);

pub(super) fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let bytes = BUNDLE
        .read(path)
        .map_err(|error| bundle_error(path, format!("cannot be read: {error}")))?;
    if bytes.is_empty() {
        return Err(bundle_error(path, "is empty; compile the program again"));
    }
    Ok(bytes)
}

/// Sorted paths in a directory.
pub(super) fn list(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed =
        |error: std::io::Error| bundle_error(directory, format!("cannot be read: {error}"));
    let entries = std::fs::read_dir(directory).map_err(failed)?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.map_err(failed)?.path());
    }
    paths.sort();
    Ok(paths)
}

/// The only file of a directory that satisfies `is`; `None` if there is none.
pub(super) fn only(
    directory: &Path,
    what: &str,
    is: impl Fn(&str) -> bool,
) -> Result<Option<PathBuf>, Error> {
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let mut found = list(directory)?;
    found.retain(|path| path.is_file() && name(path).is_some_and(|name| is(&name)));
    if found.len() > 1 {
        let names: Vec<String> = found.iter().filter_map(|path| name(path)).collect();
        let all = names.join(", ");
        return Err(bundle_error(
            directory,
            format!("has several files that could be {what} ({all}); leave one, or name it"),
        ));
    }
    Ok(found.pop())
}

/// The P4Info in a file, as text or binary.
pub(super) fn p4info(path: &Path) -> Result<P4Info, Error> {
    let bytes = read(path)?;
    let info = match std::str::from_utf8(&bytes) {
        Ok(readable) if readable.contains('{') => text::from_text(readable).map_err(|error| {
            bundle_error(path, format!("is no P4Info: {}", one_line(&error.to_string())))
        })?,
        _ => P4Info::decode(bytes.as_slice())
            .map_err(|error| bundle_error(path, format!("is no P4Info: {error}")))?,
    };
    if info.tables.is_empty() {
        return Err(bundle_error(path, "is a P4Info without a table; compile the program again"));
    }
    Ok(info)
}

/// The named P4Info, or the one in a directory.
pub(super) fn p4info_of(
    directory: &Path,
    given: Option<&Path>,
) -> Result<(PathBuf, P4Info), Error> {
    let path = match given {
        Some(path) => path.to_owned(),
        None => only(directory, "the P4Info", |name| name.contains("p4info"))?.ok_or_else(|| {
            bundle_error(
                directory,
                "has no P4Info; compile with `--p4runtime-files p4info.txtpb`, or name the file with \
                 --p4info",
            )
        })?,
    };
    let info = p4info(&path)?;
    Ok((path, info))
}
