//! Why a request was refused, in P4Runtime's terms.

use tributary_dataplane::{ProfileError, StateError, TableError};
use tributary_p4::Diagnostic;
use tributary_p4::ir::{Origin, Program};
use tributary_p4runtime::google::rpc::Code;

/// A canonical error code and a message for developers.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The error code.
    pub code: Code,
    /// The problem, with names and numbers.
    pub message: String,
    /// The same as an error in the program that could not be loaded, if it has a position there.
    pub diagnostic: Option<Box<Diagnostic>>,
}

impl Refusal {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), diagnostic: None }
    }

    /// A refusal of a program because of an error there.
    pub(crate) fn of_program(diagnostic: Diagnostic) -> Self {
        let message = diagnostic.to_string();
        Self { diagnostic: Some(Box::new(diagnostic)), ..Self::invalid(message) }
    }

    /// Adds a position in the program, if the refusal has none yet.
    pub(crate) fn at(self, program: &Program, origin: Option<Origin>) -> Self {
        if self.diagnostic.is_some() {
            return self;
        }
        let error = origin.and_then(|at| program.origins.error(at, self.message.clone()));
        match error {
            Some(diagnostic) => Self { code: self.code, ..Self::of_program(diagnostic) },
            None => self,
        }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    pub(crate) fn out_of_range(message: impl Into<String>) -> Self {
        Self::new(Code::OutOfRange, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(Code::NotFound, message)
    }

    pub(crate) fn already_exists(message: impl Into<String>) -> Self {
        Self::new(Code::AlreadyExists, message)
    }

    pub(crate) fn permission_denied(message: impl Into<String>) -> Self {
        Self::new(Code::PermissionDenied, message)
    }

    pub(crate) fn failed_precondition(message: impl Into<String>) -> Self {
        Self::new(Code::FailedPrecondition, message)
    }

    pub(crate) fn unimplemented(message: impl Into<String>) -> Self {
        Self::new(Code::Unimplemented, message)
    }

    /// Adds the subject to the message.
    pub(crate) fn of(mut self, what: &str) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }
}

impl From<TableError> for Refusal {
    fn from(error: TableError) -> Self {
        let code = match &error {
            TableError::UnknownTable | TableError::NotFound => Code::NotFound,
            TableError::AlreadyExists => Code::AlreadyExists,
            TableError::ActionScope(_) | TableError::Constant(_) => Code::PermissionDenied,
            TableError::KeyWidth { .. } | TableError::ArgWidth { .. } => Code::OutOfRange,
            TableError::Full(_) => Code::ResourceExhausted,
            TableError::UnknownAction(_)
            | TableError::KeyCount { .. }
            | TableError::MatchKind(_)
            | TableError::BadMatch { .. }
            | TableError::ArgCount { .. }
            | TableError::ActionKind(_)
            | TableError::NoTimeout
            | TableError::Priority(_) => Code::InvalidArgument,
            TableError::Profile(error) => return Self::from((**error).clone()),
        };
        Self::new(code, error.to_string())
    }
}

impl From<ProfileError> for Refusal {
    fn from(error: ProfileError) -> Self {
        let code = match error {
            ProfileError::Unknown | ProfileError::NotFound(..) => Code::NotFound,
            ProfileError::AlreadyExists(..) => Code::AlreadyExists,
            ProfileError::InUse(..) => Code::FailedPrecondition,
            ProfileError::Full(_) | ProfileError::TooLarge(_) => Code::ResourceExhausted,
            ProfileError::NoGroups | ProfileError::Twice(_) | ProfileError::Weight => {
                Code::InvalidArgument
            }
            ProfileError::Action(error) => return error.into(),
        };
        Self::new(code, error.to_string())
    }
}

impl From<StateError> for Refusal {
    fn from(error: StateError) -> Self {
        let code = match error {
            StateError::Unknown(_) | StateError::NotFound => Code::NotFound,
            StateError::AlreadyExists => Code::AlreadyExists,
            StateError::Full(_) => Code::ResourceExhausted,
            StateError::Rates | StateError::Filter => Code::InvalidArgument,
            StateError::Index { .. } | StateError::Width(_) => Code::OutOfRange,
            StateError::Table(error) => return error.into(),
        };
        Self::new(code, error.to_string())
    }
}
