//! P4 programs and STF scripts.

use std::sync::LazyLock;

use tributary_p4::{Compilation, compile_text};
use tributary_p4runtime::p4::v1::ForwardingPipelineConfig;
use tributary_switch::Forwarding;
use tributary_switch::stf::{NetworkTest, Script};

use crate::bounds::{MIB, Turn};

/// Most bytes of all diagnostics of a program.
const OUTPUT: usize = 200_000;

#[test]
fn p4() {
    let turn = Turn::wait();
    bolero::check!().for_each(|input: &[u8]| {
        let Ok(text) = std::str::from_utf8(input) else { return };
        turn.bounded(1024 * MIB, || match compile_text("fuzz.p4", text, &[]) {
            Ok(Compilation { program, p4info, .. }) => {
                let config =
                    ForwardingPipelineConfig { p4info: Some(p4info), ..Default::default() };
                // A switch may refuse a correct program, for example one with registers that are too large.
                drop(Forwarding::load(program, config));
            }
            Err(diagnostics) => assert!(diagnostics.render(false).len() < OUTPUT),
        });
    });
}

/// The program that scripts are run on: tables of all kinds, counters, meters, registers, multicast.
pub(crate) const PROGRAM: &str = include_str!("program.p4");

static COMPILED: LazyLock<Compilation> = LazyLock::new(|| {
    compile_text("program.p4", PROGRAM, &[]).unwrap_or_else(|errors| panic!("{errors}"))
});

#[test]
fn stf() {
    let turn = Turn::wait();
    LazyLock::force(&COMPILED);
    bolero::check!().for_each(|input: &[u8]| {
        let Ok(text) = std::str::from_utf8(input) else { return };
        turn.bounded(256 * MIB, || {
            let names = ["h1", "s1"].map(str::to_owned);
            if let Err(error) = NetworkTest::parse(text, &names, &names) {
                assert!(error.to_string().len() < OUTPUT);
            }
            let Ok(script) = Script::parse(text) else { return };
            let config = ForwardingPipelineConfig {
                p4info: Some(COMPILED.p4info.clone()),
                ..Default::default()
            };
            let forwarding =
                Forwarding::load(COMPILED.program.clone(), config).expect("it was loaded before");
            if let Err(failure) = tributary_switch::stf::run(&script, forwarding) {
                assert!(failure.to_string().len() < OUTPUT);
            }
        });
    });
}
