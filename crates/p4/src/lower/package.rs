//! The package: roles of the blocks, and the storage that they share.

use std::rc::Rc;

use super::calls::BlockInstance;
use super::store::{Loc, Store};
use super::{Binding, Lowerer};
use crate::Architecture;
use crate::hir::{self, Construct, ExprKind};
use crate::ir::{Block, FieldRole};
use crate::source::Span;
use crate::types::{BlockKind, PackageType, Type};

/// Metadata types of TNA and PSA, and their roles in [`crate::ir::Program::intrinsic`].
const ROLES: [(&str, &str); 15] = [
    ("ingress_intrinsic_metadata_t", "ig_intr_md"),
    ("ingress_intrinsic_metadata_from_parser_t", "ig_prsr_md"),
    ("ingress_intrinsic_metadata_for_deparser_t", "ig_dprsr_md"),
    ("ingress_intrinsic_metadata_for_tm_t", "ig_tm_md"),
    ("egress_intrinsic_metadata_t", "eg_intr_md"),
    ("egress_intrinsic_metadata_from_parser_t", "eg_prsr_md"),
    ("egress_intrinsic_metadata_for_deparser_t", "eg_dprsr_md"),
    ("egress_intrinsic_metadata_for_output_port_t", "eg_oport_md"),
    ("psa_ingress_parser_input_metadata_t", "ingress_parser_input"),
    ("psa_ingress_input_metadata_t", "ingress_input"),
    ("psa_ingress_output_metadata_t", "ingress_output"),
    ("psa_egress_parser_input_metadata_t", "egress_parser_input"),
    ("psa_egress_input_metadata_t", "egress_input"),
    ("psa_egress_output_metadata_t", "egress_output"),
    ("psa_egress_deparser_input_metadata_t", "egress_deparser_input"),
];

impl Lowerer<'_, '_> {
    pub(super) fn package(&mut self, program: &hir::Program) {
        let Some(main) = &program.main else {
            // A library, such as a file of headers, also compiles.
            let message = "the program has no `main`, so that there is nothing to run: instantiate a \
                           package, as in `V1Switch(…) main;` or `Switch(pipe) main;`";
            self.reporter.warning(Span::default(), message);
            return;
        };
        let Type::Package(package) = &main.construct.ty else {
            self.error(main.span, "`main` is not an instance of a package");
            return;
        };
        self.program.package = package.name.to_string();
        self.program.origins.main = main.span;
        self.info.package = main.annotations.clone();
        self.info.headers.clone_from(&program.controller_headers);
        let architecture = Architecture::of_package(&package.name);
        for instance in &program.instances {
            let binding = self.instance(instance);
            self.vars.insert(instance.id, binding);
        }
        match architecture {
            Some(Architecture::Tna) => {}
            Some(Architecture::Psa) => {
                self.psa_pipelines(&main.construct.args, main.span);
                return;
            }
            _ => {
                self.blocks(package, &main.construct.args);
                return;
            }
        }
        if let [_, second, ..] = main.construct.args.as_slice() {
            self.unsupported(second.span, "a second pipeline is");
            return;
        }
        let Some(first) = main.construct.args.first() else { return };
        let Some((name, pipeline)) = self.nested_package(first) else { return };
        let Type::Package(package) = &pipeline.ty else { return };
        self.program.pipeline = Some(name.to_string());
        self.blocks(package, &pipeline.args);
    }

    /// The name and constructor call of a package that is an argument of another: in place, or a
    /// named instance.
    pub(super) fn nested_package(&mut self, arg: &hir::Expr) -> Option<(Rc<str>, Rc<Construct>)> {
        match &arg.kind {
            ExprKind::Construct(c) => Some((Rc::from("pipe"), c.clone())),
            ExprKind::Var(id) => match self.vars.get(id).cloned() {
                Some(Binding::Package(name, c)) => Some((name, c)),
                _ => None,
            },
            _ => None,
        }
    }

    /// The blocks that are arguments of a package. Parameters of the same package type share
    /// storage: the parser fills the headers that the controls change and the deparser emits.
    pub(super) fn blocks(&mut self, package: &Rc<PackageType>, args: &[hir::Expr]) {
        let mut shared: Vec<(Type, Store)> = Vec::new();
        for (param, arg) in package.params.iter().zip(args) {
            let Some(construct) = self.block_argument(arg) else { continue };
            let Some(block) = construct.block.clone() else { continue };
            let Type::Block(formal) = &param.ty else { continue };
            self.egress = param.name.starts_with("egress");
            let mut binds = Vec::with_capacity(block.params.len());
            for (p, f) in block.params.iter().zip(&formal.params) {
                binds.push(match self.bridge_param(&param.name, &f.name, p) {
                    Some(binding) => binding,
                    None => self.package_param(p, &f.ty, &mut shared),
                });
            }
            let ctor = self.constructor_bindings(&block, &construct.args);
            let instance =
                Rc::new(BlockInstance::new(block.clone(), block.name.to_string(), Rc::new(ctor)));
            let bound = block.params.iter().map(|p| p.id).zip(binds).collect();
            let block = match block.kind {
                BlockKind::Control => Block::Control(self.top_control(&instance, bound)),
                BlockKind::Parser => Block::Parser(self.top_parser(&instance, bound)),
            };
            self.program.blocks.push((param.name.to_string(), block));
        }
    }

    /// The constructor call of a package argument: in place, or of a named instance.
    fn block_argument(&mut self, arg: &hir::Expr) -> Option<Rc<Construct>> {
        match &arg.kind {
            ExprKind::Construct(c) => Some(c.clone()),
            ExprKind::Var(id) => match self.vars.get(id) {
                Some(Binding::Block(b)) => b.construct.clone(),
                _ => None,
            },
            ExprKind::Error => None,
            _ => {
                self.unsupported(arg.span, "package arguments other than parsers and controls are");
                None
            }
        }
    }

    fn package_param(
        &mut self,
        p: &hir::Param,
        formal: &Type,
        shared: &mut Vec<(Type, Store)>,
    ) -> Binding {
        if let Type::Extern(..) = p.ty {
            return Binding::Packet;
        }
        if let Some((_, store)) = shared.iter().find(|(ty, _)| ty == formal) {
            return Binding::Loc(Loc::Store(store.clone()));
        }
        let role = match formal {
            Type::Var(_) => FieldRole::Metadata,
            _ => FieldRole::Intrinsic,
        };
        let mut name = &*p.name;
        let mut intrinsic = String::new();
        if let (FieldRole::Intrinsic, Type::Struct(s)) = (role, &p.ty)
            && let Some((_, role)) = ROLES.iter().find(|(ty, _)| **ty == *s.name)
        {
            name = role;
            intrinsic = format!("{role}.");
        }
        let store = self.allocate(name, &p.ty, role);
        if let (
            FieldRole::Intrinsic,
            Type::Struct(s),
            Store::Struct(parts) | Store::Header(_, parts),
        ) = (role, &p.ty, &store)
        {
            for (field, part) in s.fields.iter().zip(parts.iter()) {
                if let Store::Scalar(id) = part {
                    self.program.intrinsic.push((format!("{intrinsic}{}", field.name), *id));
                    self.tna_request_type(&field.name, *id);
                }
            }
        }
        shared.push((formal.clone(), store.clone()));
        Binding::Loc(Loc::Store(store))
    }
}
