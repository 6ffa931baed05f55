//! The output of p4c's Tofino back end, as handed to Stratum, if the back end is on the `PATH`.

use std::path::{Path, PathBuf};

use prost::Message;
use tributary_controller::p4c;
use tributary_controller::programs::Source;
use tributary_controller::targets::stratum::{self, BfPipelineConfig};
use tributary_controller::targets::tofino_bin;

/// Whether the tools are installed; prints a message if not.
fn tools() -> bool {
    [stratum::COMPILER, stratum::ASSEMBLER].into_iter().all(|tool| {
        let found = p4c::find(tool, "").is_ok();
        if !found {
            println!("skipped: {tool} not found on the PATH");
        }
        found
    })
}

fn program() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/tofino/mini.p4")
}

fn compiled(path: &Path) -> (BfPipelineConfig, tributary_controller::targets::Built) {
    let built = stratum::compile(&Source::file(path).unwrap(), &[]);
    let built = built.unwrap_or_else(|error| panic!("{error}"));
    let config = BfPipelineConfig::decode(built.pipeline.device_config.as_slice()).unwrap();
    (config, built)
}

#[test]
fn a_program_is_compiled_assembled_and_put_together() {
    if !tools() {
        return;
    }
    let (config, built) = compiled(&program());
    assert_eq!(config.p4_name, "mini");
    let [profile] = &config.profiles[..] else { panic!("one pipeline") };
    assert_eq!((profile.profile_name.as_str(), profile.pipe_scope.len()), ("pipe", 4));
    let binary = tofino_bin::inspect(&profile.binary).unwrap();
    assert_eq!((binary.program.as_deref(), binary.chip.as_deref()), (Some("mini"), Some("tofino")));
    assert!(binary.blocks > 100, "{binary:?}");
    // Truncated inside a block, it is incomplete.
    for missing in [1, 2, 3] {
        let error = tofino_bin::inspect(&profile.binary[..profile.binary.len() - missing]);
        assert!(error.unwrap_err().contains("cut off"));
    }
    // `--p4runtime-force-std-externs` makes counters P4Runtime's own.
    let info = &built.pipeline.p4info;
    assert_eq!(info.counters.len(), 1);
    assert_eq!(info.counters[0].size, 256);
    assert!(info.tables[0].preamble.as_ref().unwrap().name.ends_with("Ingress.hosts"));
}

#[test]
fn a_bundle_of_two_compilations_is_refused() {
    if !tools() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(program()).unwrap();
    let other = directory.path().join("other.p4");
    std::fs::write(&other, text.replace("hosts", "places")).unwrap();
    let (mini, built) = compiled(&program());
    let (other, _) = compiled(&other);
    let info = tributary_p4runtime::text::to_text(&built.pipeline.p4info);
    std::fs::write(directory.path().join("p4info.txtpb"), info).unwrap();
    let bundle = directory.path().join("mixed.pb.bin");
    let refused = |config: &BfPipelineConfig| {
        std::fs::write(&bundle, config.encode_to_vec()).unwrap();
        stratum::load(&bundle, None).unwrap_err().to_string()
    };
    let mut mixed = mini.clone();
    mixed.profiles[0].binary.clone_from(&other.profiles[0].binary);
    let error = refused(&mixed);
    assert!(error.contains("tofino.bin of pipeline pipe is of the program other"), "{error}");
    let mut mixed = mini.clone();
    mixed.profiles[0].context.clone_from(&other.profiles[0].context);
    assert!(refused(&mixed).contains("context.json of pipeline pipe is of the program other"));
    let mut mixed = mini;
    mixed.bfruntime_info = other.bfruntime_info;
    let error = refused(&mixed);
    assert!(error.contains("it has no table `") && error.contains("Ingress.hosts"), "{error}");
}

#[test]
fn a_program_that_the_back_end_refuses_is_shown() {
    if !tools() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("broken.p4");
    let text = std::fs::read_to_string(program()).unwrap();
    std::fs::write(&path, text.replace("port = port;", "port = nonsense;")).unwrap();
    let error = stratum::compile(&Source::file(&path).unwrap(), &[]).unwrap_err().to_string();
    assert!(error.starts_with("p4c-barefoot ended with"), "{error}");
    assert!(error.contains("nonsense"), "{error}");
}
