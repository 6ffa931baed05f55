//! Compiles our own interfaces in `proto/` at the root of the repository, without an installed `protoc`.

use std::env;
use std::error::Error;
use std::path::PathBuf;

const FILES: [&str; 3] = [
    "tributary/crossconnect/v1/crossconnect.proto",
    "tributary/jobs/v1/jobs.proto",
    "tributary/placement/v1/placement.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    for file in FILES {
        println!("cargo::rerun-if-changed={}", root.join(file).display());
    }

    let mut compiler = protox::Compiler::new([&root])?;
    compiler.include_imports(true).include_source_info(true);
    compiler.open_files(FILES)?;

    let feature = |name: &str| env::var_os(format!("CARGO_FEATURE_{name}")).is_some();
    tonic_prost_build::configure()
        .build_client(feature("CLIENT"))
        .build_server(feature("SERVER"))
        .include_file("modules.rs")
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
