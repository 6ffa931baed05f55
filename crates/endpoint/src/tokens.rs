//! Tokens with which the endpoints of ESA jobs authenticate to the reminder agent. The controller
//! draws them and writes them to a file that only its owner may read; all endpoints read that file.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context, Result, bail};
use rand::RngCore as _;
use tributary_limits::FileLimit;
use tributary_model::{JobSpec, Protocol, Scenario};
use tributary_wire::channel::{TOKEN_LEN, Token};

/// Only the owner may read and write.
const MODE: u32 = 0o600;

/// Permissions of users other than the owner.
const OTHERS: u32 = 0o077;

/// Far more than the largest job file needs.
const LIMIT: FileLimit = FileLimit::new("file of tokens", 1 << 20);

/// The tokens of jobs, by job name.
#[derive(Clone, Debug, Default)]
pub struct Tokens(BTreeMap<String, Token>);

impl FromIterator<(String, Token)> for Tokens {
    fn from_iter<I: IntoIterator<Item = (String, Token)>>(tokens: I) -> Self {
        Self(tokens.into_iter().collect())
    }
}

impl Tokens {
    /// Draws tokens for those of a scenario's jobs whose protocol has a reminder agent.
    pub fn draw(scenario: &Scenario) -> Self {
        let jobs = scenario.jobs.iter().filter(|job| job.protocol == Protocol::Esa);
        let draw = |job: &JobSpec| {
            let mut token = [0; TOKEN_LEN];
            // Seeded by the operating system, never by the scenario: tokens must not be guessed.
            rand::rng().fill_bytes(&mut token);
            (job.name.clone(), Token(token))
        };
        Self(jobs.map(draw).collect())
    }

    /// By the names of jobs.
    #[must_use]
    pub fn by_job(&self) -> BTreeMap<String, Token> {
        self.0.clone()
    }

    /// These, with the tokens that others have for the same jobs in their place.
    #[must_use]
    pub fn keeping(mut self, others: &Self) -> Self {
        for (job, token) in &mut self.0 {
            if let Some(other) = others.0.get(job) {
                *token = *other;
            }
        }
        self
    }

    /// Reads a file that [`write`](Self::write) wrote.
    ///
    /// # Errors
    /// If it cannot be read, other users may read it, or its content is invalid.
    pub fn read(path: &Path) -> Result<Self> {
        let name = path.display();
        let file = File::open(path).with_context(|| format!("cannot open the tokens in {name}"))?;
        let metadata = file.metadata().with_context(|| format!("cannot look at {name}"))?;
        let mode = metadata.permissions().mode() & 0o777;
        if mode & OTHERS != 0 {
            bail!("{name} has mode {mode:04o}, and tokens are secret: run `chmod 600 {name}`");
        }
        let mut text = String::new();
        LIMIT
            .of(file)
            .read_to_string(&mut text)
            .with_context(|| format!("cannot read the tokens in {name}"))?;
        Self::parse(&text, &name.to_string())
    }

    /// Parses what [`to_text`](Self::to_text) wrote into the file of this name.
    ///
    /// # Errors
    /// If its content is invalid.
    pub fn parse(text: &str, name: &str) -> Result<Self> {
        // serde's message could quote a token.
        let written: BTreeMap<String, String> = serde_json::from_str(text).map_err(|error| {
            anyhow::anyhow!(
                "{name}:{}:{}: not a file of tokens, as `tributary controller --tokens` writes it",
                error.line(),
                error.column()
            )
        })?;
        let token = |(job, hex): (String, String)| {
            let token = hex.parse().with_context(|| format!("{name}: the token of job {job}"))?;
            Ok((job, token))
        };
        Ok(Self(written.into_iter().map(token).collect::<Result<_>>()?))
    }

    /// The tokens as text, which is secret.
    #[must_use]
    pub fn to_text(&self) -> String {
        let hex: BTreeMap<_, _> = self.0.iter().map(|(job, token)| (job, token.to_hex())).collect();
        serde_json::to_string_pretty(&hex).expect("texts are plain data")
    }

    /// Writes the tokens to a file that only its owner may read, replacing an existing file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = self.to_text();
        // Renaming would replace a device or a FIFO.
        let kind = fs::symlink_metadata(path).map(|there| there.file_type());
        if kind.is_ok_and(|kind| !kind.is_file()) {
            bail!("cannot write the tokens to {}: it is not a regular file", path.display());
        }
        // No process reads half a file, or the tokens through an old handle.
        tributary_limits::write_whole_with_mode(path, format!("{text}\n"), MODE).map_err(|error| {
            anyhow::anyhow!("cannot write the tokens to {}: {error}", path.display())
        })
    }

    /// The token of a job.
    ///
    /// # Errors
    /// If there is none.
    pub fn of(&self, job: &JobSpec) -> Result<Token> {
        self.0.get(&job.name).copied().with_context(|| {
            format!(
                "there is no token for job {}; name the file that `tributary controller --tokens` \
                 wrote with --tokens",
                job.name
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario() -> Scenario {
        let text = "protocol = \"esa\"\n[[job]]\nname = \"a\"\nworkers = 2\n\
                    [[job]]\nname = \"b\"\nworkers = 2\n";
        tributary_jobfile::parse(text, "job.toml").unwrap()
    }

    #[test]
    fn only_the_owner_reads_what_was_written() {
        let scenario = scenario();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens.json");
        let tokens = Tokens::draw(&scenario);
        let [a, b] = [0, 1].map(|job| tokens.of(&scenario.jobs[job]).unwrap());
        assert_ne!(a, b);
        // An existing file is replaced, whatever its mode was.
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        tokens.write(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        let read = Tokens::read(&path).unwrap();
        assert_eq!([0, 1].map(|job| read.of(&scenario.jobs[job]).unwrap()), [a, b]);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing else is left");

        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let error = Tokens::read(&path).unwrap_err().to_string();
        assert!(error.contains("mode 0640") && error.contains("chmod 600"), "{error}");
        let again = Tokens::draw(&scenario);
        assert_ne!(again.of(&scenario.jobs[0]).unwrap(), a);
    }

    #[test]
    fn invalid_token_files_are_reported_without_showing_tokens() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens.json");
        let secret = "00112233445566778899aabbccddeeff";
        for (text, said) in [
            (format!("{{\"a\": \"{secret}\""), "not a file of tokens"),
            (format!("[\"{secret}\"]"), "not a file of tokens"),
            (format!("{{\"a\": \"{}\"}}", &secret[1..]), "the token of job a"),
        ] {
            fs::write(&path, &text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(MODE)).unwrap();
            let error = format!("{:#}", Tokens::read(&path).unwrap_err());
            assert!(error.contains(said), "{error}");
            assert!(!error.contains(&secret[1..]), "{error}");
        }
        let scenario = scenario();
        let error = Tokens::default().of(&scenario.jobs[1]).unwrap_err().to_string();
        assert!(error.contains("no token for job b"), "{error}");
        let error = Tokens::read(&directory.path().join("none")).unwrap_err();
        assert!(format!("{error:#}").contains("none"), "{error:#}");
        let error = Tokens::default().write(&directory.path().join("no/tokens")).unwrap_err();
        assert!(error.to_string().contains("cannot write the tokens"), "{error}");
    }
}
