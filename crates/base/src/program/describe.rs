//! Manual pages and completions, from the definition of the command line, and checks of that definition.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::programs::OTHERS;

/// Arguments of the command that prints completions.
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    /// Prints the script.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn print(&self, mut program: Command) -> Result<()> {
        let (mut script, name) = (Vec::new(), program.get_name().to_owned());
        clap_complete::generate(self.shell, &mut program, name, &mut script);
        super::print(String::from_utf8_lossy(&script).trim_end())
    }
}

/// Arguments of the command that writes manual pages.
#[derive(Debug, Args)]
pub struct ManualPages {
    /// Directory for the pages, such as /usr/local/share/man/man1; created if missing.
    directory: PathBuf,
}

impl ManualPages {
    /// Writes one page for the program and one for each command.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn write(&self, program: Command) -> Result<()> {
        let directory = &self.directory;
        let mut program = program.disable_help_subcommand(true);
        // Gives commands their full names.
        program.build();
        fs::create_dir_all(directory)
            .and_then(|()| write(&program, true, directory))
            .with_context(|| format!("cannot write manual pages to {}", directory.display()))
    }
}

fn write(command: &Command, is_program: bool, directory: &Path) -> io::Result<()> {
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    // Other programs write their own pages.
    for command in shown.filter(|command| !is_program || !OTHERS.contains(&command.get_name())) {
        write(command, false, directory)?;
    }
    let page = Man::new(command.clone())
        .manual("Tributary")
        .source(concat!("tributary ", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    page.render(&mut text)?;
    if is_program {
        for (heading, entries) in SECTIONS {
            section(heading, entries, &mut text)?;
        }
    }
    crate::write_whole(&directory.join(page.get_filename()), text)
}

/// Columns and lines of a terminal that shows the short help of a command at once.
const COLUMNS: usize = 100;
const LINES: usize = 40;

/// What is wrong with the help of a program, for its tests: a visible command without examples, an example that is not a
/// valid command line, an empty default, or a short help of more than 40 lines of 100 columns. The commands of `long`,
/// such as `program command`, may have a longer one.
#[must_use]
pub fn flaws(program: &Command, long: &[&str]) -> Vec<String> {
    let mut built = program.clone().disable_help_subcommand(true);
    // Gives commands their full names.
    built.build();
    let mut flaws = Vec::new();
    examine(program, &built, long, &mut flaws);
    flaws
}

fn examine(program: &Command, command: &Command, long: &[&str], flaws: &mut Vec<String>) {
    let name = command.get_bin_name().unwrap_or(program.get_name());
    let examples = examples(command, program.get_name());
    if examples.is_empty() {
        flaws.push(format!("{name}: its help has no example"));
    }
    for example in examples {
        if !example.starts_with(name) {
            flaws.push(format!("{name}: `{example}` is an example of another command"));
        }
        if let Err(error) = program.clone().try_get_matches_from(example.split_whitespace()) {
            let error = error.to_string();
            flaws
                .push(format!("{name}: `{example}`: {}", error.lines().next().unwrap_or_default()));
        }
    }
    for argument in command.get_arguments() {
        if argument.get_default_values().iter().any(|value| value.is_empty()) {
            flaws.push(format!("{name}: the default of {} is empty", argument.get_id()));
        }
    }
    let help = command.clone().term_width(COLUMNS).render_help().to_string();
    if help.lines().count() > LINES && !long.contains(&name) {
        flaws.push(format!("{name}: its short help has {} lines", help.lines().count()));
    }
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        examine(program, command, long, flaws);
    }
}

/// The command lines in the text behind a command's options. A backslash continues a line.
fn examples(command: &Command, program: &str) -> Vec<String> {
    let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let joined = text.replace("\\\n", " ");
    let lines = joined.lines().map(str::trim);
    let own = lines.filter(|line| line.split_whitespace().next() == Some(program));
    own.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// What the definition of the command line does not say: headings, and entries of name and text.
const SECTIONS: &[(&str, &[(&str, &str)])] = &[
    (
        "EXIT STATUS",
        &[
            ("0", "Success."),
            ("1", "An error, described by one line on standard error."),
            ("2", "An invalid command line."),
        ],
    ),
    (
        "ENVIRONMENT",
        &[(
            "TRIBUTARY_LOG",
            "What is logged on standard error: a level (error, warn, info, debug, trace), or levels per crate, \
             such as tributary_controller=debug,h2=debug. By default: warnings, and decisions of the placement manager.",
        )],
    ),
    (
        "FILES",
        &[
            ("/etc/tributary", "Settings of the systemd services, and their keys."),
            ("/var/lib/tributary", "State of the systemd services."),
        ],
    ),
];

fn section(heading: &str, entries: &[(&str, &str)], out: &mut impl Write) -> io::Result<()> {
    let mut roff = Roff::new();
    roff.control("SH", [heading]);
    for (name, text) in entries {
        roff.control("TP", []).text([bold(*name)]).text([roman(*text)]);
    }
    out.write_all(roff.to_roff().as_bytes())
}
