//! Compiles P4 programs and prints their contents: `compile [-I DIR] [-D NAME=VALUE] [--ir]
//! [--p4info] FILE…`. The exit code is 1 if a program does not compile.

use std::process::ExitCode;
use std::time::Instant;

use tributary_p4::{Sources, compile};

fn main() -> ExitCode {
    let mut sources = Sources::disk();
    let mut defines = Vec::new();
    let mut files = Vec::new();
    let (mut show_ir, mut show_info) = (false, false);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "-I" => sources = sources.search(args.next().unwrap_or_default()),
            "-D" => {
                let define = args.next().unwrap_or_default();
                let (name, value) = define.split_once('=').unwrap_or((&define, "1"));
                defines.push((name.to_owned(), value.to_owned()));
            }
            "--ir" => show_ir = true,
            "--p4info" => show_info = true,
            _ => files.push(arg),
        }
    }
    let mut failed = false;
    for file in files {
        let start = Instant::now();
        match compile(&sources, &file, &defines) {
            Ok(done) => {
                eprint!("{}", done.warnings.render(false));
                let p = &done.program;
                println!(
                    "{file}: {}, {} fields, {} headers, {} tables, {} actions, {} externs, {} ms",
                    p.package,
                    p.fields.len(),
                    p.headers.len(),
                    p.tables.len(),
                    p.actions.len(),
                    p.externs.len(),
                    start.elapsed().as_millis()
                );
                if show_info {
                    println!("{}", tributary_p4runtime::text::to_text(&done.p4info));
                }
                if show_ir {
                    println!("{p:#?}");
                }
            }
            Err(diagnostics) => {
                failed = true;
                eprint!("{}", diagnostics.render(false));
            }
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
