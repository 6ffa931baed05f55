//! Embeds `p4src/` in the library: a list of every P4 file's path and text.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../../p4src").canonicalize()?;
    println!("cargo::rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    collect(&root, &root, &mut files)?;
    files.sort();
    let mut list = String::from("&[\n");
    for name in &files {
        writeln!(list, "    ({name:?}, include_str!({:?})),", root.join(name))?;
    }
    list.push(']');
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("p4src.rs"), list)?;
    Ok(())
}

/// Adds the paths of all P4 files below a directory, relative to `root`, with `/`.
fn collect(root: &Path, directory: &Path, files: &mut Vec<String>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(root, &path, files)?;
        } else if path.extension().is_some_and(|ending| ending == "p4") {
            let relative = path.strip_prefix(root)?;
            let parts: Vec<_> = relative.iter().map(|part| part.to_string_lossy()).collect();
            files.push(parts.join("/"));
        }
    }
    Ok(())
}
