//! Registers of v1model whose cells are structs, tuples or arrays of numbers: a call has one
//! argument for each scalar of the cell.

use super::store::{Loc, scalar};
use super::{Lowerer, Value};
use crate::hir::{self, CallArg};
use crate::ir::{Arg, ExternCall, ExternId, FieldId, Place, Stmt};
use crate::source::Span;
use crate::types::Type;

impl Lowerer<'_, '_> {
    /// Reports a register whose cells are not made of numbers, or of none.
    pub(super) fn register_instance(&mut self, type_name: &str, args: &[Type], span: Span) {
        let Some(cell) = args.first() else { return };
        let refused = match type_name {
            "register" => !cell.is_plain() || cell.scalars() == 0,
            "Register" | "DirectRegister" => cell.is_plain() && cell.scalars() == 0,
            _ => false,
        };
        if refused && !matches!(cell, Type::Unknown | Type::Var(_)) {
            let message = format!("a register cannot hold values of type {cell}");
            self.reporter.error_help(span, message, "its cells are numbers, or structs of numbers");
        }
    }

    /// Lowers `read` or `write` of a register with such cells. False for all other calls.
    pub(super) fn register_call(&mut self, id: ExternId, method: &str, args: &[CallArg]) -> bool {
        let register = &self.program.externs[id.index()];
        if register.type_name != "register" {
            return false;
        }
        let Some(cell) = self.info.extern_types[id.index()].first().cloned() else { return false };
        if scalar(&cell).is_some() || !cell.is_plain() {
            return false;
        }
        match method {
            "read" => self.read_cell(id, &cell, args),
            _ => self.write_cell(id, args),
        }
        true
    }

    /// `read(result, index)`: directly into the result's fields if it is a variable, otherwise
    /// through a local one. An index beyond the register's end changes nothing, so that one starts
    /// with the value of the result.
    fn read_cell(&mut self, id: ExternId, cell: &Type, args: &[CallArg]) {
        let (mut target, mut index) = (None, None);
        for (position, arg) in hir::in_turn(args) {
            let Some(e) = &arg.value else { continue };
            if position > 0 {
                let value = self.scalar(e);
                // The result may contain the index.
                index = Some(self.keep_index(value));
            } else if let Value::Loc(loc) = self.value(e) {
                target = Some(self.fix(loc));
            }
        }
        let Some(index) = index else { return };
        let (store, copied) = match target {
            Some(Loc::Store(store)) => (store, None),
            other => {
                let store = self.local("$cell", cell);
                if let Some(loc) = &other {
                    self.assign(&Loc::Store(store.clone()), Value::Loc(loc.clone()), cell);
                }
                (store, other)
            }
        };
        let mut fields: Vec<FieldId> = Vec::new();
        store.scalars(&mut fields);
        self.reporter.work(fields.len() as u64);
        let out = |f: &FieldId| Arg::Out(Place::Field(*f), self.program.fields[f.index()].ty);
        let mut list: Vec<Arg> = fields.iter().map(out).collect();
        list.push(Arg::In(index));
        self.register_stmt(id, "read", list);
        if let Some(loc) = copied {
            self.assign(&loc, Value::Loc(Loc::Store(store)), cell);
        }
    }

    /// `write(index, value)`.
    fn write_cell(&mut self, id: ExternId, args: &[CallArg]) {
        let list = self.extern_args(args);
        self.reporter.work(list.len() as u64);
        self.register_stmt(id, "write", list);
    }

    fn register_stmt(&mut self, id: ExternId, method: &str, args: Vec<Arg>) {
        self.emit(Stmt::Call(ExternCall { instance: Some(id), method: method.to_owned(), args }));
    }
}
