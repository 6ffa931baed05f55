//! What can go wrong: one line each, with problem, place and fix.

use tributary_base::document::suggest;

/// Why a command could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command is invalid.
    #[error("{0}")]
    Input(String),
    /// The switch is not there, or refuses.
    #[error(transparent)]
    Switch(#[from] tributary_controller::Error),
    /// The switch refused updates.
    #[error("{what}: {reason}{}{}", others(*failed, *all), fix.map(|fix| format!("; {fix}")).unwrap_or_default())]
    Refused {
        /// The first update that failed, as a command.
        what: String,
        /// The switch's answer.
        reason: String,
        /// Number of updates that failed.
        failed: usize,
        /// Number of updates in the batch.
        all: usize,
        /// How to fix it.
        fix: Option<&'static str>,
    },
    /// The program has errors.
    #[error("{path} has errors; correct them, or see `tributary p4 check`")]
    Program {
        /// The file.
        path: String,
        /// All errors with their lines.
        diagnostics: String,
    },
    /// A file cannot be read or written.
    #[error("cannot {verb} {path}: {reason}")]
    File {
        /// `read` or `write`.
        verb: &'static str,
        /// The file.
        path: String,
        /// The operating system's error.
        reason: String,
    },
}

impl Error {
    pub(crate) fn input(text: impl Into<String>) -> Self {
        Self::Input(text.into())
    }
}

fn others(failed: usize, all: usize) -> String {
    match all {
        0 | 1 => String::new(),
        all => format!(" ({failed} of {all} updates failed)"),
    }
}

/// An error for an unknown word: names the nearest known one, or else all. `lacks` is what precedes the word, such as
/// `there is no table`.
pub(crate) fn unknown<'a>(
    lacks: &str,
    word: &str,
    known: impl Iterator<Item = &'a str> + Clone,
) -> Error {
    let last = word.rsplit('.').next().unwrap_or(word);
    let near = suggest::nearest(word, known.clone()).or_else(|| {
        // The last parts of the names are nearer than the names.
        let of = |name: &&str| name.rsplit('.').next().unwrap_or(name).to_owned();
        let parts: Vec<String> = known.clone().map(|name| of(&name)).collect();
        let near = suggest::nearest(last, parts.iter().map(String::as_str))?.to_owned();
        known.clone().find(|name| of(name) == near)
    });
    let help = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => match suggest::list(known) {
            none if none.is_empty() => "there are none".to_owned(),
            all => format!("known: {all}"),
        },
    };
    Error::input(format!("{lacks} `{word}`; {help}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_proposed() {
        let known = ["MyIngress.ipv4_lpm", "MyIngress.acl", "fwd"];
        let say = |word: &str| unknown("there is no table", word, known.into_iter()).to_string();
        assert_eq!(
            say("ipv4_lmp"),
            "there is no table `ipv4_lmp`; did you mean `MyIngress.ipv4_lpm`?"
        );
        assert_eq!(say("fwt"), "there is no table `fwt`; did you mean `fwd`?");
        assert!(say("routing_of_mpls").contains("known: `MyIngress.ipv4_lpm`, `MyIngress.acl`"));
        assert!(unknown("there is no meter", "m", [].into_iter()).to_string().contains("are none"));
    }
}
