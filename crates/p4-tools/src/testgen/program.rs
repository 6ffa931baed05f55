//! What an instrumented program says of itself, for all parts of the generator.

use tributary_p4::ir::{
    Arg, CtorArg, Expr, ExprKind, Extern, ExternCall, ExternId, MatchKind, Stmt, Table,
};

use crate::testgen::circuit::to_bits;

/// The goal that a statement counts, if it is such a call.
pub(crate) fn counted(statement: &Stmt, counter: ExternId) -> Option<usize> {
    let Stmt::Call(ExternCall { instance, args, .. }) = statement else { return None };
    match args.first() {
        Some(Arg::In(Expr { kind: ExprKind::Const(goal), .. })) if *instance == Some(counter) => {
            Some(goal[0] as usize)
        }
        _ => None,
    }
}

/// Whether the control plane can add entries to a table.
pub(crate) fn takes_entries(table: &Table) -> bool {
    !table.const_entries && table.keys.iter().any(|key| key.kind != MatchKind::Selector)
}

/// Whether some configuration of a table runs this action of its list.
pub(crate) fn can_run(table: &Table, action: usize) -> bool {
    let listed = &table.actions[action];
    let is_default = table.default_action.action as usize == action;
    let by_default = is_default || !table.const_default && listed.scope.as_default();
    let by_entry = table.entries.iter().any(|entry| entry.call.action as usize == action);
    let by_added = !table.keys.is_empty() && !table.const_entries && listed.scope.in_entries();
    by_default || by_entry || by_added
}

/// The cell of a new register: zeros, or what a program for TNA says after the size.
pub(crate) fn initial_cell(register: &Extern, width: usize) -> Vec<bool> {
    let mut bits = Vec::new();
    for (at, scalar) in register.type_args.iter().enumerate() {
        let value = match register.args.get(at + 1) {
            Some(CtorArg::Int(value)) => *value as u64,
            _ => 0,
        };
        bits.extend(to_bits(value, scalar.width as usize));
    }
    bits.resize(width, false);
    bits
}
