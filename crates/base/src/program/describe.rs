//! Manual pages and completions, from the definition of the command line.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

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
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
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
             such as tributary_controller=debug,h2=debug. The default is warn.",
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
