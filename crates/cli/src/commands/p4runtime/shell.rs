//! The shell: lines with editing, history and completion.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};
use tokio::runtime::Runtime;
use tributary_base::say;
use tributary_client::commands::is_exit;
use tributary_client::complete::complete;
use tributary_client::names::Names;
use tributary_client::{Report, Session, words};

/// Completes with the names of the program that the switch runs.
struct Words(Arc<Mutex<Names>>);

impl Completer for Words {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (begin, mut found) = complete(&names, &line[..pos]);
        // A finished word is followed by a blank.
        if let [only] = &mut found[..]
            && !only.ends_with('=')
        {
            only.push(' ');
        }
        Ok((begin, found))
    }
}

impl Hinter for Words {
    type Hint = String;
}
impl Highlighter for Words {}
impl Validator for Words {}
impl Helper for Words {}

/// Reads commands from the terminal until `exit` or Ctrl-D.
///
/// # Errors
/// If the terminal cannot be read. An error of a command is printed, and the shell goes on.
pub(super) fn run(
    runtime: &Runtime,
    session: &mut Session,
    address: &str,
    print: &mut dyn FnMut(&Report),
) -> Result<()> {
    let names = Arc::new(Mutex::new(session.names().clone()));
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .auto_add_history(true)
        .max_history_size(1000)
        .context("cannot start the shell")?
        .build();
    let mut editor: Editor<Words, FileHistory> =
        Editor::with_config(config).context("cannot start the shell")?;
    editor.set_helper(Some(Words(names.clone())));
    let history = history();
    if let Some(path) = &history {
        // There is none at the first time.
        let _ = editor.load_history(path);
    }
    say!("{address}: `help` lists the commands, Tab completes, Ctrl-D leaves");
    loop {
        let line = match editor.readline("p4runtime> ") {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(error).context("cannot read the terminal"),
        };
        let outcome = words::split(&line).map_err(anyhow::Error::from).and_then(|words| {
            if is_exit(&words) {
                return Ok(true);
            }
            // Ctrl-C counts from here.
            let mut interrupts = super::interrupts(runtime)?;
            let outcome = super::carry_out(runtime, session, &words, print, &mut interrupts);
            session.release();
            outcome.map(|_| false)
        });
        match outcome {
            Ok(true) => break,
            Ok(false) => {}
            Err(error) => eprintln!("error: {}", tributary_base::one_line(error.as_ref())),
        }
        session.names().clone_into(&mut names.lock().unwrap_or_else(PoisonError::into_inner));
    }
    if let Some(path) = &history {
        // The shell works without a history. Other shells may have written to the file meanwhile, and only the user can
        // read it.
        let _ = path.parent().map(std::fs::create_dir_all);
        let _ = editor.append_history(path);
    }
    Ok(())
}

/// Where the history is: in the user's directory for state.
fn history() -> Option<PathBuf> {
    let state =
        std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let state = state.or_else(|| Some(std::env::home_dir()?.join(".local/state")));
    state.map(|state| state.join("tributary/p4runtime.history"))
}
