//! Commands on a switch that runs elsewhere: one that has ports and a clock of its own.

use std::collections::{BTreeSet, VecDeque};

use super::{Memory, Run};
use crate::Switch;
use crate::stf::error::{Failure, Place};
use crate::stf::outputs::Outputs;
use crate::stf::script::{DriverCommand, Script, Statement};

/// Executes the commands of a script on a switch whose program has just become active, for instance to fill its
/// tables. Time does not pass meanwhile. All cores of the switch must be here, and get the same state.
///
/// # Errors
///
/// The first command that failed; commands before it have been executed. A script with packets or expectations of
/// packets is refused before the first command.
pub fn configure(script: &Script, switch: &mut Switch, now_us: u64) -> Result<(), Failure> {
    configure_with(&mut Memory::default(), script, switch, now_us)
}

/// [`configure`]s a switch, and keeps what later commands may refer to.
pub(in crate::stf) fn configure_with(
    memory: &mut Memory,
    script: &Script,
    switch: &mut Switch,
    now_us: u64,
) -> Result<(), Failure> {
    let several = switch.config().cores > 1;
    script.statements.iter().try_for_each(|(place, it)| check(*place, it, several))?;
    for (place, statement) in &script.statements {
        command(memory, *place, statement, switch, now_us)?;
    }
    let refused = |refusal: crate::Refusal| Failure { place: None, reason: refusal.to_string() };
    if several { switch.equip_cores().map_err(refused) } else { Ok(()) }
}

/// Executes one command.
pub(in crate::stf) fn command(
    memory: &mut Memory,
    place: Place,
    statement: &Statement,
    switch: &mut Switch,
    now_us: u64,
) -> Result<(), Failure> {
    check(place, statement, false)?;
    if switch.forwarding().is_none() {
        return Err(place.failure("the switch has no program yet"));
    }
    let mut run = Run {
        switch,
        now_us,
        outputs: Outputs::new(BTreeSet::new()),
        memory: std::mem::take(memory),
        packets: 0,
        digests: VecDeque::new(),
    };
    let done = run.command(place, statement);
    *memory = run.memory;
    done
}

/// Refuses what needs packets or time, and with several cores what only one of them would get.
fn check(place: Place, statement: &Statement, several: bool) -> Result<(), Failure> {
    match statement {
        Statement::Packet { .. }
        | Statement::Expect { .. }
        | Statement::NoPacket
        | Statement::ExpectDigest { .. }
        | Statement::Wait
        | Statement::Driver(DriverCommand::Link { .. }) => Err(place.failure(
            "only commands for tables, groups and other state may be here: packets, `wait`, \
             `expect_digest` and links belong to tests of one switch",
        )),
        Statement::Driver(_) | Statement::Filter { .. } if several => Err(place.failure(
            "a switch with several threads does not take this command: use one thread, or for \
             settings of ports and generator a file of `--tofino`",
        )),
        _ => Ok(()),
    }
}
