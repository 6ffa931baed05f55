//! P4_16 front end: preprocess, parse, check, lower to a typed IR, P4Info.
//!
//! The phases are modules. `preprocess` joins the files into one text. `lexer` and `parser` build
//! the syntax tree (`ast`). `check` resolves names, types and constants (`hir`). `lower`
//! instantiates the package and produces the [`ir`] that an execution engine runs. Architectures
//! are P4 texts (`arch`): v1model of BMv2, PSA, and TNA of Tofino, for which `tofino` rejects
//! programs that the chip's stateful ALUs cannot run. `limits` bounds the cost of a compilation, and
//! `dump` prints the program after each phase. Start reading at [`compile`].

mod arch;
mod ast;
mod check;
mod diagnostics;
mod dump;
mod format;
pub mod graph;
mod hir;
pub mod ir;
mod lexer;
mod limits;
mod lower;
mod p4info;
mod parser;
mod preprocess;
mod source;
mod tofino;
mod types;
mod walk;

pub use arch::{Architecture, UnknownArchitecture};
pub use diagnostics::{Diagnostic, Diagnostics, Severity};
pub use dump::{Pass, dump};
pub use format::format;
pub use ir::Block;
pub use source::{SOURCE, Sources};
pub use tributary_p4runtime::p4::config::v1::P4Info;

use std::sync::Arc;

use diagnostics::Stop;
use source::{Reporter, Span, Text};

/// A compiled program.
#[derive(Debug)]
pub struct Compilation {
    /// The program for the execution engine.
    pub program: ir::Program,
    /// The program's control-plane interface.
    pub p4info: P4Info,
    /// Warnings.
    pub warnings: Diagnostics,
}

/// `(name, value)` of predefined macros, as with `-D NAME=VALUE`.
pub type Defines<'a> = &'a [(String, String)];

/// Parses the values of `-D`: `NAME=VALUE`, or `NAME` for 1.
///
/// # Errors
///
/// One line, if a name is empty.
pub fn defines(values: &[String]) -> Result<Vec<(String, String)>, String> {
    let parse = |define: &String| match define.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        None if !define.is_empty() => Ok((define.clone(), "1".to_owned())),
        _ => Err(format!("-D {define}: write NAME=VALUE")),
    };
    values.iter().map(parse).collect()
}

/// Joins a main file and all files that it includes into one self-contained text. Lines of the form
/// `# n "file"` in it give the origin of the following line; [`compile_text`] understands them.
///
/// # Errors
///
/// All errors of the preprocessor, if there are any.
pub fn preprocess(
    sources: &Sources,
    main: &str,
    defines: Defines<'_>,
) -> Result<String, Diagnostics> {
    on_large_stack(|| {
        let (text, diagnostics) = load(sources, main, defines)?;
        if diagnostics.has_errors() { Err(diagnostics) } else { Ok(text.text) }
    })
}

/// How to compile a program. Macros alone convert into it.
#[derive(Clone, Copy, Default, Debug)]
pub struct Options<'a> {
    /// Predefined macros.
    pub defines: Defines<'a>,
    /// Whether to mark in the program where its statements come from ([`ir::Mark`]), for traces.
    pub marks: bool,
}

impl<'a> Options<'a> {
    /// With marks.
    #[must_use]
    pub const fn marked(defines: Defines<'a>) -> Self {
        Self { defines, marks: true }
    }
}

impl<'a> From<Defines<'a>> for Options<'a> {
    fn from(defines: Defines<'a>) -> Self {
        Self { defines, marks: false }
    }
}

impl<'a, const N: usize> From<&'a [(String, String); N]> for Options<'a> {
    fn from(defines: &'a [(String, String); N]) -> Self {
        Self::from(&defines[..])
    }
}

impl<'a> From<&'a Vec<(String, String)>> for Options<'a> {
    fn from(defines: &'a Vec<(String, String)>) -> Self {
        Self::from(&defines[..])
    }
}

/// Compiles a main file: a path, or the name of an embedded file.
///
/// # Errors
///
/// All errors and warnings, if there is an error.
pub fn compile<'a>(
    sources: &Sources,
    main: &str,
    options: impl Into<Options<'a>>,
) -> Result<Compilation, Diagnostics> {
    let options = options.into();
    on_large_stack(|| {
        let (text, diagnostics) = load(sources, main, options.defines)?;
        compile_preprocessed(text, main, diagnostics, options.marks)
    })
}

/// Compiles a text, preprocessed or not. It can include the built-in architectures only.
/// Diagnostics call the file `name` up to the first line marker.
///
/// # Errors
///
/// All errors and warnings, if there is an error.
pub fn compile_text<'a>(
    name: &str,
    text: &str,
    options: impl Into<Options<'a>>,
) -> Result<Compilation, Diagnostics> {
    let options = options.into();
    on_large_stack(|| {
        let (text, diagnostics) =
            preprocess::run(&Sources::embedded(), name, text, options.defines);
        compile_preprocessed(text, name, diagnostics, options.marks)
    })
}

/// Stack of the compiler's thread, in bytes of address space. The phases recurse over the syntax tree, and a macro can produce
/// a sum of thousands of terms. Only used stack takes memory. `limits` bounds the depth.
pub const STACK_BYTES: usize = 512 << 20;

fn on_large_stack<T: Send>(
    f: impl FnOnce() -> Result<T, Diagnostics> + Send,
) -> Result<T, Diagnostics> {
    std::thread::scope(|scope| {
        let thread =
            std::thread::Builder::new().name("p4-compiler".to_owned()).stack_size(STACK_BYTES);
        match thread.spawn_scoped(scope, f) {
            Ok(thread) => thread.join().unwrap_or_else(|ended| match ended.downcast::<Stop>() {
                Ok(stop) => Err(stop.0),
                Err(panic) => std::panic::resume_unwind(panic),
            }),
            Err(error) => {
                let text = Text::new(String::new(), "", source::Originals::new());
                let mut reporter = Reporter::new(&text);
                let what = format!(
                    "cannot start the P4 compiler's thread, which reserves {} MiB of address space: {error}; \
                     raise the limits of address space (`ulimit -v`) and of processes (`ulimit -u`)",
                    STACK_BYTES >> 20
                );
                reporter.error(Span::default(), what);
                Err(reporter.list)
            }
        }
    })
}

fn load(
    sources: &Sources,
    main: &str,
    defines: Defines<'_>,
) -> Result<(Text, Diagnostics), Diagnostics> {
    match sources.main(main) {
        Some(text) => Ok(preprocess::run(sources, main, &text, defines)),
        None => {
            let empty = Text::new(String::new(), main, source::Originals::new());
            let mut reporter = Reporter::new(&empty);
            reporter.error(Span::default(), format!("cannot read `{main}`"));
            Err(reporter.list)
        }
    }
}

fn compile_preprocessed(
    text: Text,
    name: &str,
    diagnostics: Diagnostics,
    marks: bool,
) -> Result<Compilation, Diagnostics> {
    if diagnostics.has_errors() {
        return Err(diagnostics);
    }
    let mut reporter = Reporter::with(&text, diagnostics);
    let tokens = lexer::lex(&mut reporter);
    let syntax = parser::parse(&mut reporter, &tokens);
    // Check the parsed part even after syntax errors, to report all errors together.
    let complete = !reporter.list.has_errors();
    let checked = check::check(&mut reporter, &syntax, complete);
    if reporter.list.has_errors() {
        return Err(reporter.list);
    }
    let (mut program, info) = lower::lower(&mut reporter, &checked, name, marks);
    if reporter.list.has_errors() {
        return Err(reporter.list);
    }
    let p4info = p4info::generate(&program, &info);
    program.translated = p4info::translated(&info);
    program.controller_headers = p4info::controller_headers(&program, &info);
    let warnings = reporter.list;
    program.origins.text = Some(Arc::new(text));
    Ok(Compilation { program, p4info, warnings })
}
