//! The `tributary-p4` program: the command line is in `args`, and `commands` has one file per command.

mod args;
mod commands;

use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory as _, Parser as _};
use tributary_base::{program, programs};

use args::{Cli, Command};

/// Address space of the compiler: its stack, and memory.
const SPACE: u64 = tributary_p4::STACK_BYTES as u64 + (512 << 20);

fn main() -> ExitCode {
    let cli = Cli::parse();
    programs::this_is("tributary-p4");
    let started = program::start(None::<program::Identity>, SPACE);
    program::end(started.and_then(|()| run(cli.command)))
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Check(args) => commands::check(&args),
        Command::Fmt(args) => commands::fmt::run(&args),
        Command::Info(args) => commands::info(&args),
        Command::Graph(args) => commands::graph::run(&args),
        Command::Trace(args) => commands::trace::run(&args),
        Command::Dissector(args) => commands::dissector::run(&args),
        Command::Stf(args) => return commands::stf::run(&args),
        Command::Test(args) => return commands::test::run(&args),
        Command::Completions(args) => args.print(Cli::command()),
        Command::Man(args) => args.write(Cli::command()),
    }?;
    Ok(ExitCode::SUCCESS)
}
