//! Compiles the blocks, the metadata and the extern instances of TNA.

use tributary_p4::ir::visit::{self, Visit};
use tributary_p4::ir::{self, Expr, ExprKind, FieldId, Mark, Program, Stmt};

use super::slots::Slots;
use super::{Context, Loader, Place};
use crate::error::LoadError;
use crate::pass::Entries;
use crate::tna::metadata::{Gress, Intrinsics};

/// Requests that the engine does not support. Writing zero requests nothing.
const UNSUPPORTED: &[(&str, &str)] = &[
    ("eg_dprsr_md.coalesce_flush", "coalesced mirroring"),
    ("eg_dprsr_md.coalesce_length", "coalesced mirroring"),
    ("eg_oport_md.capture_tstamp_on_tx", "time stamps of the port"),
    ("eg_oport_md.update_delay_on_tx", "time stamps of the port"),
];

impl Loader<'_> {
    /// Compiles the blocks of an architecture with parsers and deparsers in ingress and egress: their
    /// roles in the order of a packet's way.
    pub(super) fn two_pipelines(&mut self, roles: [&'static str; 6]) -> Result<Entries, LoadError> {
        let [ip, ig, id, ep, eg, ed] = roles;
        let ingress_parser = self.parser_block(ip)?;
        self.context = Context::Control;
        let ingress = self.control(ig)?;
        self.context = Context::Deparser;
        let ingress_deparser = self.control(id)?;
        let egress_parser = self.parser_block(ep)?;
        self.context = Context::Control;
        let egress = self.control(eg)?;
        self.context = Context::Deparser;
        let egress_deparser = self.control(ed)?;
        Ok(Entries {
            ingress_parser,
            ingress,
            ingress_deparser,
            egress_parser,
            egress,
            egress_deparser,
        })
    }

    /// Compiles the blocks of a `Switch`'s pipeline.
    pub(super) fn tna_blocks(&mut self) -> Result<Entries, LoadError> {
        self.two_pipelines([
            "ingress_parser",
            "ingress",
            "ingress_deparser",
            "egress_parser",
            "egress",
            "egress_deparser",
        ])
    }
}

/// Finds the intrinsic metadata.
pub(super) fn intrinsics(program: &Program, slots: &mut Slots) -> Intrinsics {
    let mut item = |name: &str| super::intrinsic(program, slots, name);
    let mut gress = |of: &str| Gress {
        global_tstamp: item(&format!("{of}_prsr_md.global_tstamp")),
        parser_err: item(&format!("{of}_prsr_md.parser_err")),
        drop_ctl: item(&format!("{of}_dprsr_md.drop_ctl")),
    };
    let (ingress, egress) = (gress("ig"), gress("eg"));
    Intrinsics {
        ingress,
        ucast_egress_port: item("ig_tm_md.ucast_egress_port"),
        mcast_grp_a: item("ig_tm_md.mcast_grp_a"),
        mcast_grp_b: item("ig_tm_md.mcast_grp_b"),
        bypass_egress: item("ig_tm_md.bypass_egress"),
        copy_to_cpu: item("ig_tm_md.copy_to_cpu"),
        deflect_on_drop: item("ig_tm_md.deflect_on_drop"),
        rid: item("ig_tm_md.rid"),
        level2_exclusion_id: item("ig_tm_md.level2_exclusion_id"),
        resubmit: slots.words(1),
        resubmit_data: slots.words(1),
        egress,
    }
}

/// Whether the program reads `parser_err` of the ingress parser.
pub(super) fn handles_errors(program: &Program) -> bool {
    let field = program.intrinsic_field("ig_prsr_md.parser_err");
    field.is_some_and(|field| Use::find(program, field, Access::Read).found)
}

/// Refuses requests that the engine would silently ignore.
pub(super) fn check(program: &Program, at: &Place) -> Result<(), LoadError> {
    for (name, what) in UNSUPPORTED {
        let Some(field) = program.intrinsic_field(name) else { continue };
        let found = Use::find(program, field, Access::Write);
        if found.found {
            at.set(found.mark.and_then(|number| program.origins.statement(number)));
            return Err(LoadError::Intrinsic { name: (*name).to_owned(), what });
        }
    }
    Ok(())
}

/// How a program uses a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    /// An assignment of anything but zero.
    Write,
}

/// Looks for the first use of a field.
struct Use {
    field: FieldId,
    access: Access,
    found: bool,
    /// The mark before it.
    mark: Option<u32>,
}

impl Use {
    fn find(program: &Program, field: FieldId, access: Access) -> Self {
        let mut all = Self { field, access, found: false, mark: None };
        visit::walk_program(&mut all, program);
        all
    }
}

impl Visit<'_> for Use {
    fn visit_expr(&mut self, expr: &Expr) {
        let here = matches!(expr.kind, ExprKind::Field(field) if field == self.field);
        self.found |= here && self.access == Access::Read;
        visit::walk_expr(self, expr);
    }

    fn visit_stmt(&mut self, statement: &Stmt) {
        match statement {
            Stmt::Mark(Mark::At(_, number)) if !self.found => self.mark = Some(*number),
            Stmt::Assign(ir::Place::Field(field) | ir::Place::Slice(field, ..), value)
                if *field == self.field && self.access == Access::Write =>
            {
                let zero = |limbs: &[u64]| limbs.iter().all(|&limb| limb == 0);
                self.found |= !matches!(&value.kind, ExprKind::Const(limbs) if zero(limbs));
            }
            _ => {}
        }
        visit::walk_stmt(self, statement);
    }
}
