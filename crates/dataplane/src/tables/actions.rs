//! Actions in the form of the control plane and in the form for packets.

use tributary_p4::ir::{self, Scope};

use crate::error::TableError;
use crate::value::Value;

/// An action with its arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ActionCall {
    /// Index into the table's list of actions ([`tributary_p4::ir::Table::actions`]); for a member
    /// of an action profile, of the first table in the program that has the profile.
    pub action: u32,
    /// One value for each of the action's run-time parameters, in order.
    pub args: Vec<Value>,
}

/// The action of an entry, or of a table on a miss.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// An action of its own: in tables without an action profile, and on a miss in any.
    Direct(ActionCall),
    /// The action of this member of the table's action profile.
    Member(u32),
    /// The action of a member of this group of the table's action selector, picked by the packet's
    /// hash.
    Group(u32),
    /// One of these calls: an anonymous group, in P4Runtime an action set ("one shot").
    Set(ActionSet),
}

/// Calls of which each packet gets one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ActionSet {
    /// Runs for each packet, before the call that it gets.
    pub group_action: Option<ActionCall>,
    /// The calls.
    pub calls: Vec<WeightedCall>,
    /// Whether packets get calls at random, and not by their hash.
    pub random: bool,
}

/// An action in a set that belongs to one entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WeightedCall {
    /// The action.
    pub call: ActionCall,
    /// Weight, at least 1.
    pub weight: u32,
    /// The port whose link the action needs.
    pub watch: Option<u16>,
}

impl Action {
    /// The action, if the entry has one of its own.
    #[must_use]
    pub fn direct(&self) -> Option<&ActionCall> {
        match self {
            Self::Direct(call) => Some(call),
            Self::Member(_) | Self::Group(_) | Self::Set(_) => None,
        }
    }
}

impl From<ActionCall> for Action {
    fn from(call: ActionCall) -> Self {
        Self::Direct(call)
    }
}

/// Where a `@groupaction` may be used.
const GROUP_ACTION: &str = "as the group action of an action set only";

/// An action of a table.
#[derive(Clone, Debug)]
struct ActionShape {
    /// Widths of its run-time parameters.
    params: Vec<u32>,
    scope: Scope,
}

/// The actions of a table, or those allowed for the members of a profile.
#[derive(Clone, Debug, Default)]
pub(crate) struct ActionShapes(Vec<ActionShape>);

/// An action in the form for packets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Resolved {
    /// Index into the table's actions.
    pub(crate) action: u32,
    /// The arguments' words, concatenated.
    pub(crate) data: Box<[u64]>,
}

/// The action of an entry in the form for packets.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Direct(Resolved),
    /// Number of a member of the table's profile.
    Member(u32),
    /// Number of a group of the table's profile.
    Group(u32),
    /// A group that no other entry shares.
    Set(Box<Choices>),
}

/// An [`ActionSet`] in the form for packets.
#[derive(Clone, Debug)]
pub(crate) struct Choices {
    pub(crate) group_action: Option<Resolved>,
    pub(crate) random: bool,
    /// Actions, repeated by weight, and the ports that they watch.
    pub(crate) calls: Box<[(Resolved, Option<u16>)]>,
}

impl Outcome {
    /// What runs before the picked action.
    pub(crate) fn group_action(&self) -> Option<&Resolved> {
        match self {
            Self::Set(set) => set.group_action.as_ref(),
            Self::Direct(_) | Self::Member(_) | Self::Group(_) => None,
        }
    }
}

impl ActionShapes {
    /// The actions of a table.
    pub(crate) fn new(program: &ir::Program, table: &ir::Table) -> Self {
        let shape = |offered: &ir::TableAction| {
            let params = &program.actions[offered.action.index()].params;
            ActionShape {
                params: params.iter().map(|param| program.fields[param.index()].ty.width).collect(),
                scope: offered.scope,
            }
        };
        Self(table.actions.iter().map(shape).collect())
    }

    /// Validates an action of an entry.
    pub(crate) fn resolve_for_entry(&self, call: &ActionCall) -> Result<Resolved, TableError> {
        match self.shape(call)?.scope {
            Scope::TableAndDefault | Scope::TableOnly => self.resolve(call),
            Scope::DefaultOnly => Err(TableError::ActionScope("as the default action only")),
            Scope::GroupAction => Err(TableError::ActionScope(GROUP_ACTION)),
        }
    }

    /// Validates the group action of a set.
    pub(crate) fn resolve_for_group(&self, call: &ActionCall) -> Result<Resolved, TableError> {
        match self.shape(call)?.scope {
            Scope::GroupAction => self.resolve(call),
            _ => Err(TableError::ActionScope("as a group action only if it is a @groupaction")),
        }
    }

    /// Validates a default action.
    pub(crate) fn resolve_for_default(&self, call: &ActionCall) -> Result<Resolved, TableError> {
        match self.shape(call)?.scope {
            Scope::TableAndDefault | Scope::DefaultOnly => self.resolve(call),
            Scope::TableOnly => Err(TableError::ActionScope("in entries only")),
            Scope::GroupAction => Err(TableError::ActionScope(GROUP_ACTION)),
        }
    }

    fn shape(&self, call: &ActionCall) -> Result<&ActionShape, TableError> {
        self.0.get(call.action as usize).ok_or(TableError::UnknownAction(call.action))
    }

    /// Validates an action's arguments.
    pub(crate) fn resolve(&self, call: &ActionCall) -> Result<Resolved, TableError> {
        let params = &self.shape(call)?.params;
        if params.len() != call.args.len() {
            return Err(TableError::ArgCount { expected: params.len(), got: call.args.len() });
        }
        let mut data = Vec::new();
        for (arg, (value, &width)) in call.args.iter().zip(params).enumerate() {
            if !value.fits(width) {
                return Err(TableError::ArgWidth { arg, width });
            }
            data.extend(value.limbs(width.div_ceil(64) as usize));
        }
        Ok(Resolved { action: call.action, data: data.into() })
    }
}

/// An action in the program's text.
pub(super) fn program_call(call: &ir::ActionCall) -> ActionCall {
    ActionCall {
        action: call.action,
        args: call.args.iter().map(|limbs| Value::from_limbs(limbs)).collect(),
    }
}
