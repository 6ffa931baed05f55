//! Compiles `proto/` at the root of the repository, without an installed `protoc`.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use prost::Message as _;

const FILES: [&str; 6] = [
    "google/rpc/code.proto",
    "google/rpc/status.proto",
    "p4/config/v1/p4info.proto",
    "p4/config/v1/p4types.proto",
    "p4/v1/p4data.proto",
    "p4/v1/p4runtime.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    println!("cargo::rerun-if-changed={}", root.display());

    let mut compiler = protox::Compiler::new([&root])?;
    compiler.include_imports(true).include_source_info(true);
    compiler.open_files(FILES)?;
    let mut files = compiler.file_descriptor_set();

    // Names are what the text format looks descriptors up by.
    let mut config = tonic_prost_build::Config::new();
    config.enable_type_names();

    let feature = |name: &str| env::var_os(format!("CARGO_FEATURE_{name}")).is_some();
    tonic_prost_build::configure()
        .build_client(feature("CLIENT"))
        .build_server(feature("SERVER"))
        .compile_well_known_types(false)
        .btree_map(".") // one encoding for one value
        .include_file("modules.rs")
        .compile_fds_with_config(files.clone(), config)?;

    // The descriptors travel with the library; comments are of no use there.
    for file in &mut files.file {
        file.source_code_info = None;
    }
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("descriptors.bin"), files.encode_to_vec())?;
    Ok(())
}
