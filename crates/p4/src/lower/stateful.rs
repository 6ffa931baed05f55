//! Register actions: methods that instances give themselves.

use super::store::{Loc, Store};
use super::{Binding, Lowerer, Value, build};
use crate::hir::{self, CallArg};
use crate::ir::{self, BinaryOp, CtorArg, ExternId, StatefulAction};
use crate::types::Type;

impl Lowerer<'_, '_> {
    /// Lowers the `apply` of a register action.
    pub(super) fn stateful_instance(&mut self, id: ExternId, instance: &hir::Instance) {
        let Some(apply) = instance.methods.iter().find(|m| &*m.name == "apply") else { return };
        let e = &self.program.externs[id.index()];
        if !matches!(e.type_name.as_str(), "RegisterAction" | "DirectRegisterAction") {
            return;
        }
        let register = match e.args.first() {
            Some(&CtorArg::Instance(register)) => register,
            _ => return,
        };
        let outer = std::mem::replace(&mut self.prefix, e.name.clone());
        let mut stores = Vec::with_capacity(apply.params.len());
        for param in &apply.params {
            let store = self.local(&param.name, &param.ty);
            self.vars.insert(param.id, Binding::Loc(Loc::Store(store.clone())));
            stores.push(store);
        }
        let fields = |l: &Self, store: Option<&Store>| {
            let mut list = Vec::new();
            if let Some(store) = store {
                store.fields(&l.program.headers, &mut list);
            }
            list
        };
        let value = fields(self, stores.first());
        let result = fields(self, stores.get(1)).first().copied();
        let returned = self.result.take();
        let body = self.buffered(|l| l.statements(&apply.body));
        self.result = returned;
        self.prefix = outer;
        self.program.stateful.push(StatefulAction { instance: id, register, value, result, body });
    }

    /// `this.predicate(cmplo, cmphi)`: one of four bits, the comparison of the low unit counting one
    /// and that of the high unit two.
    pub(super) fn predicate(&mut self, args: &[CallArg], ty: &Type) -> Value {
        let wide = super::store::scalar(ty).unwrap_or(ir::Scalar::bit(4));
        let bits = ir::Scalar::bit(4);
        let mut mask = build::constant(&1.into(), bits);
        for (i, arg) in args.iter().enumerate() {
            let Some(arg) = &arg.value else { continue };
            let condition = self.scalar(arg);
            let by = build::constant(&(1 << i).into(), bits);
            let shifted = build::binary(BinaryOp::Shl, mask.clone(), by);
            mask = build::mux(condition, shifted, mask);
        }
        Value::Scalar(build::cast(mask, wide))
    }
}
