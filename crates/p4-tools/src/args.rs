//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use tributary_base::program::{Completions, ManualPages};
use tributary_p4::Architecture;

/// Checks, tests, traces and describes P4_16 programs for v1model, PSA and TNA.
#[derive(Debug, Parser)]
#[command(
    name = "tributary-p4",
    version,
    arg_required_else_help = true,
    after_help = concat!(
        "Example:\n  tributary-p4 check p4src/v1model/atp.p4\n\n",
        tributary_base::exit_status!(),
        "; `stf` and `test` also end with 1 if a test fails"
    )
)]
pub(crate) struct Cli {
    /// The command to run.
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Report all errors of a program.
    #[command(after_help = "Example:\n  tributary-p4 check p4src/v1model/atp.p4")]
    Check(CheckArgs),
    /// Format files: indentation and white space. Comments and line breaks stay.
    #[command(after_help = "Example:\n  tributary-p4 fmt --check program.p4")]
    Fmt(FmtArgs),
    /// Write the program's P4Info.
    #[command(after_help = "Example:\n  tributary-p4 info program.p4 --out program.p4info.txt")]
    Info(InfoArgs),
    /// Write the control flow of the program's parsers and controls for Graphviz, one file per block.
    #[command(after_help = "Example:\n  tributary-p4 graph program.p4 --out graphs")]
    Graph(GraphArgs),
    /// Run a packet test in the STF format of p4c's test suite: prints PASS, or FAIL and the
    /// reason.
    #[command(after_help = "Example:\n  tributary-p4 stf program.p4 program.stf")]
    Stf(StfArgs),
    /// Generate packet tests that cover a program, in the STF format, and report what they reach.
    #[command(after_help = "Example:\n  tributary-p4 test program.p4 --out tests")]
    Test(TestArgs),
    /// Explain a packet: everything that the program and the switch do to it, as a tree.
    #[command(after_help = "Example:\n\
        \x20 tributary-p4 trace program.p4 --packet 0000000000010000000000020800 --all-outcomes")]
    Trace(TraceArgs),
    /// Generate a dissector in Lua, with which Wireshark and tshark show the headers that the
    /// program's parser extracts.
    #[command(after_help = "Example:\n  tributary-p4 dissector p4src/v1model/esa.p4 --out esa.lua")]
    Dissector(DissectorArgs),
    /// Print a script that completes this command in a shell.
    #[command(after_help = "Example:\n  tributary-p4 completions bash")]
    Completions(Completions),
    /// Write the manual pages, for packages.
    #[command(hide = true, after_help = "Example:\n  tributary-p4 man /usr/local/share/man/man1")]
    Man(ManualPages),
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) program: P4Args,
    /// One line for each error: FILE:LINE:COLUMN: error: MESSAGE, as editors read it.
    #[arg(long)]
    pub(crate) short: bool,
    /// The architecture that the program must be for: v1model, tna or psa. It also defines the compiler's macro for
    /// it: `__TARGET_BMV2__`, or `__TARGET_TOFINO__` as 1.
    #[arg(long, value_name = "ARCHITECTURE", conflicts_with = "dump")]
    pub(crate) target: Option<Architecture>,
    /// Print the program after this pass: typed, ir, code. `list` says what each one shows.
    #[arg(long, value_name = "PASS")]
    pub(crate) dump: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct FmtArgs {
    /// The files, which are changed in place.
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Change nothing: list the files that would change, and fail if there are any.
    #[arg(long)]
    pub(crate) check: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DissectorArgs {
    #[command(flatten)]
    pub(crate) program: P4Args,
    /// Write to a file instead of standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Name of the protocol in display filters. Default: `p4_` and the file's name.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Dissect the payloads of this UDP port. Default: the ports at which the program's parser goes on
    /// to more headers; without any, whole frames.
    #[arg(long, value_name = "UDP_PORT", group = "place")]
    pub(crate) port: Option<u16>,
    /// Dissect the payloads of this EtherType, such as 0x88b5.
    #[arg(long, value_name = "N", group = "place", value_parser = ether_type)]
    pub(crate) ethertype: Option<u16>,
    /// Dissect whole Ethernet frames, instead of Wireshark's own dissectors.
    #[arg(long, group = "place")]
    pub(crate) ethernet: bool,
}

/// An EtherType, in decimal or in hexadecimal after `0x`.
fn ether_type(text: &str) -> Result<u16, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map_err(|_| "write a number up to 65535, or 0x and up to four hexadecimal digits".into())
}

#[derive(Debug, Args)]
pub(crate) struct InfoArgs {
    #[command(flatten)]
    pub(crate) program: P4Args,
    /// Write to a file instead of standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Encoded protobuf instead of protobuf text.
    #[arg(long, requires = "out")]
    pub(crate) binary: bool,
}

#[derive(Debug, Args)]
pub(crate) struct GraphArgs {
    #[command(flatten)]
    pub(crate) program: P4Args,
    /// Directory for the files; created if missing.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct StfArgs {
    #[command(flatten)]
    pub(crate) program: P4Args,
    /// The packet test.
    pub(crate) script: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct TestArgs {
    #[command(flatten)]
    pub(crate) program: P4Args,
    /// Directory for the tests, coverage.txt and coverage.json; created if missing.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Seed of all random choices. The same seed gives the same tests.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Stop searching after this many minutes; p4testgen is stopped after as many.
    #[arg(long, default_value_t = 1.0, value_parser = minutes)]
    pub(crate) minutes: f64,
    /// Maximum number of tests. Those that reach most come first.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = whole(1..=1_000_000))]
    pub(crate) max_tests: u64,
    /// Maximum number of packets in a test.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = whole(1..=64))]
    pub(crate) packets: u64,
    /// Do not set registers and the rates of meters in tests: they are as in a new switch.
    #[arg(long)]
    pub(crate) no_presets: bool,
    /// Also run the tests on this many faulty variants of the program, and report how many fail.
    #[arg(long, value_name = "N", value_parser = whole(1..=1_000_000))]
    pub(crate) mutants: Option<u64>,
    /// Also let p4testgen of p4c, from the PATH, generate up to this many tests, and run them.
    #[arg(long, value_name = "N", requires = "out", value_parser = whole(1..=1_000_000))]
    pub(crate) with_p4testgen: Option<u64>,
    /// Report what these tests reach instead of generating any.
    #[arg(long, value_name = "FILE", num_args = 1.., value_parser = packet_test, conflicts_with_all = ["mutants", "with_p4testgen"])]
    pub(crate) measure: Vec<PathBuf>,
}

/// A packet test: with `--measure` in front, the program's name would be taken for one.
fn packet_test(text: &str) -> Result<PathBuf, String> {
    match text.ends_with(".p4") {
        true => Err("this is a program, not a packet test: write it before --measure".into()),
        false => Ok(text.into()),
    }
}

/// A length of time that is not unreasonable.
fn minutes(text: &str) -> Result<f64, String> {
    let minutes = text.parse().ok().filter(|minutes| (0.0..=100_000.0).contains(minutes));
    minutes.ok_or_else(|| "write a number of minutes, such as 0.5 or 60".into())
}

/// A number within bounds.
fn whole(range: std::ops::RangeInclusive<u64>) -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(range)
}

#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    #[command(flatten)]
    pub(crate) program: P4Args,
    /// The packet's bytes in hexadecimal digits; blanks are ignored.
    #[arg(long, value_name = "HEX")]
    pub(crate) packet: String,
    /// The port by which it arrives.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) port: u16,
    /// Entries, groups and earlier packets, as commands of a packet test (STF); what the test expects
    /// is ignored.
    #[arg(long, value_name = "FILE")]
    pub(crate) entries: Option<PathBuf>,
    /// Show all possible outcomes: each member of a group, and, without --entries, each action of
    /// each table that the control plane fills.
    #[arg(long)]
    pub(crate) all_outcomes: bool,
    /// Table whose entries are unknown: each of its actions is a possible outcome. Repeat for each.
    #[arg(long, value_name = "TABLE")]
    pub(crate) unknown: Vec<String>,
    /// Most outcomes to show.
    #[arg(long, value_name = "N", default_value_t = 64,
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) max_outcomes: u32,
    /// Format of the tree.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: TraceFormat,
    /// Write to a file instead of standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Do not collapse repeated lines that differ only in a value. JSON never collapses them.
    #[arg(long)]
    pub(crate) full: bool,
}

/// How to show a trace.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
pub(crate) enum TraceFormat {
    /// A tree of lines, with colours in a terminal.
    #[default]
    Text,
    /// A document for other programs.
    Json,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct P4Args {
    /// The program.
    pub(crate) file: PathBuf,
    /// Directory to search for included files; repeat for each directory.
    #[arg(short = 'I', value_name = "DIR")]
    pub(crate) include: Vec<PathBuf>,
    /// Compile-time constant, such as VALUES=256.
    #[arg(short = 'D', value_name = "NAME=VALUE")]
    pub(crate) defines: Vec<String>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// Commands with more options than fit on a screen.
    const LONG: &[&str] = &[];

    #[test]
    fn help_has_examples_and_fits_on_a_screen() {
        let flaws = tributary_base::program::flaws(&Cli::command(), LONG);
        assert!(flaws.is_empty(), "{flaws:#?}");
    }
}
