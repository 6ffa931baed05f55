//! PSA: its two pipelines, the metadata between them, and functions that become expressions.

use super::store::{Loc, Store};
use super::{Binding, Lowerer, Value, build};
use crate::Architecture;
use crate::hir::{self, CallArg, DeclId};
use crate::ir::{BinaryOp, Bridge, Expr, ExternCall, FieldRole, Stmt, UnaryOp};
use crate::source::Span;
use crate::types::Type;

/// Positions of the two pipelines among the arguments of `PSA_Switch`.
const PIPELINES: [usize; 2] = [0, 2];

/// Metadata that travels: the deparser, its parameter, and the parser that has the same parameter.
const BRIDGES: [(&str, &str, &str); 5] = [
    ("id", "normal_meta", "ep"),
    ("id", "clone_i2e_meta", "ep"),
    ("ed", "clone_e2e_meta", "ep"),
    ("id", "resubmit_meta", "ip"),
    ("ed", "recirculate_meta", "ip"),
];

/// Positions of the fields of `psa_ingress_output_metadata_t` …
const INGRESS_CLONE: usize = 1;
const INGRESS_DROP: usize = 3;
const INGRESS_RESUBMIT: usize = 4;
/// … and of `psa_egress_output_metadata_t`.
const EGRESS_CLONE: usize = 0;
const EGRESS_DROP: usize = 2;

/// `PSA_PORT_RECIRCULATE`.
const RECIRCULATE: u32 = 0xffff_fffa;

/// The storage of a parameter that is one end of a bridge.
pub(super) struct Bridged {
    block: String,
    param: String,
    ty: Type,
    store: Store,
    span: Span,
}

impl Lowerer<'_, '_> {
    /// The blocks of both pipelines, which share no storage but what travels with a packet.
    pub(super) fn psa_pipelines(&mut self, args: &[hir::Expr], span: Span) {
        for at in PIPELINES {
            let Some(arg) = args.get(at) else { return };
            let Some((_, pipeline)) = self.nested_package(arg) else {
                self.unsupported(arg.span, "a pipeline that is not constructed in the program is");
                return;
            };
            let Type::Package(package) = &pipeline.ty else { return };
            self.blocks(package, &pipeline.args);
        }
        for (deparser, param, parser) in BRIDGES {
            self.bridge(deparser, param, parser, span);
        }
    }

    /// Separate storage for a parameter that is one end of a bridge; `None` for all others.
    pub(super) fn bridge_param(
        &mut self,
        block: &str,
        formal: &str,
        param: &hir::Param,
    ) -> Option<Binding> {
        let ends = |&(from, name, to): &(&str, &str, &str)| {
            name == formal && (from == block || to == block)
        };
        if self.program.architecture() != Some(Architecture::Psa) || !BRIDGES.iter().any(ends) {
            return None;
        }
        let store = self.allocate(&format!("{block}.{formal}"), &param.ty, FieldRole::Metadata);
        self.bridged.push(Bridged {
            block: block.to_owned(),
            param: formal.to_owned(),
            ty: param.ty.clone(),
            store: store.clone(),
            span: param.span,
        });
        Some(Binding::Loc(Loc::Store(store)))
    }

    fn bridge(&mut self, deparser: &str, param: &str, parser: &str, span: Span) {
        let end = |block: &str| self.bridged.iter().find(|b| b.block == block && b.param == param);
        let (Some(from), Some(to)) = (end(deparser), end(parser)) else { return };
        if from.ty != to.ty {
            let message = format!(
                "`{param}` is {} in the deparser of one pass and {} in the parser of the next",
                from.ty, to.ty
            );
            let first = from.span;
            self.reporter.error_at(span, message, "the deparser's parameter is", first);
            return;
        }
        let mut bridge = Bridge { name: param.to_owned(), from: Vec::new(), to: Vec::new() };
        from.store.fields(&self.program.headers, &mut bridge.from);
        to.store.fields(&self.program.headers, &mut bridge.to);
        self.program.bridges.push(bridge);
    }

    /// PSA's functions about what becomes of a packet. `None` for other functions.
    pub(super) fn psa_function(&mut self, name: &str, args: &[CallArg]) -> Option<Value> {
        if self.program.architecture() != Some(Architecture::Psa) {
            return None;
        }
        let not = |e| build::unary(UnaryOp::Not, e);
        let both = |a, b| build::binary(BinaryOp::And, a, b);
        let of = |l: &mut Self, arg: usize| -> Option<Vec<Expr>> {
            let value = args.get(arg)?.value.as_ref()?;
            let mut parts = Vec::new();
            let whole = l.value(value);
            l.flatten(whole, &value.ty, value.span, &mut parts);
            Some(parts)
        };
        let value = match name {
            "psa_clone_i2e" => of(self, 0)?.get(INGRESS_CLONE)?.clone(),
            "psa_clone_e2e" => of(self, 0)?.get(EGRESS_CLONE)?.clone(),
            "psa_resubmit" | "psa_normal" => {
                let istd = of(self, 0)?;
                let (drop, resubmit) = (istd.get(INGRESS_DROP)?, istd.get(INGRESS_RESUBMIT)?);
                let resubmit = resubmit.clone();
                let wanted = if name == "psa_resubmit" { resubmit } else { not(resubmit) };
                both(not(drop.clone()), wanted)
            }
            "psa_recirculate" => {
                let drop = of(self, 0)?.get(EGRESS_DROP)?.clone();
                let port = of(self, 1)?.first()?.clone();
                let recirculate = build::constant(&RECIRCULATE.into(), port.ty);
                both(not(drop), build::binary(BinaryOp::Eq, port, recirculate))
            }
            _ => return None,
        };
        Some(Value::Scalar(value))
    }

    /// Clears a checksum when the block that declares it starts.
    pub(super) fn clear_checksum(&mut self, instance: DeclId) {
        let Some(Binding::Extern(id)) = self.vars.get(&instance) else { return };
        let id = *id;
        let type_name = self.program.externs[id.index()].type_name.as_str();
        let psa = self.program.architecture() == Some(Architecture::Psa);
        if psa && matches!(type_name, "Checksum" | "InternetChecksum") {
            let (method, args) = ("clear".to_owned(), Vec::new());
            self.emit(Stmt::Call(ExternCall { instance: Some(id), method, args }));
        }
    }
}
