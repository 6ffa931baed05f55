//! Tokens with which the endpoints of ESA jobs authenticate to the reminder agent. The controller draws them, and gives
//! them to the endpoints that take part.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use rand::RngCore as _;
use tributary_model::{JobSpec, Scenario};
use tributary_wire::channel::{TOKEN_LEN, Token};

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
        let jobs = scenario.jobs.iter().filter(|job| job.protocol.has_reminder_agent());
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

    /// The token of a job.
    ///
    /// # Errors
    /// If there is none.
    pub fn of(&self, job: &JobSpec) -> Result<Token> {
        self.0
            .get(&job.name)
            .copied()
            .with_context(|| format!("the controller has told no token for job {}", job.name))
    }
}
