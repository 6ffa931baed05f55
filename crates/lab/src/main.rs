//! The `tributary-lab` program: the command line is in `args`, and `commands` has one file per command.

mod args;
mod commands;

use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory as _, Parser as _};
use tributary_base::program::stop_flag;
use tributary_base::{program, programs, say};
use tributary_lab::{bench, soak};

use args::{Cli, Command};
use commands::sim::SimCommand;

/// Address space of the commands that compile P4 programs: the compiler's stack, and memory.
const SPACE: u64 = tributary_p4::STACK_BYTES as u64 + (512 << 20);

fn main() -> ExitCode {
    let cli = Cli::parse();
    programs::this_is("tributary-lab");
    let compiles = matches!(
        cli.command,
        Command::Bench(_) | Command::Chaos(_) | Command::Soak(_) | Command::Sim(_)
    );
    let space = if compiles { SPACE } else { program::SPACE };
    let started = program::start(None::<program::Identity>, space);
    program::end(started.and_then(|()| run(cli.command)).map(|()| ExitCode::SUCCESS))
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Bench(args) => bench::run(&args, stop_flag),
        Command::Chaos(args) => commands::chaos::run(&args),
        Command::Soak(args) => soak::run(&args, &*stop_flag()?, |line| say!("{line}")),
        Command::Place(args) => commands::place::run(&args),
        Command::Sim(SimCommand::Esa(args)) => commands::sim::esa(&args),
        Command::Optical(command) => commands::optical::run(&command),
        Command::Completions(args) => args.print(Cli::command()),
        Command::Man(args) => args.write(Cli::command()),
    }
}
