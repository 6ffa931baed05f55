//! A builder of programs in the intermediate representation, for tests and benchmarks that need
//! single constructs, independent of the front end.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

pub mod atp;
mod engine;

use tributary_dataplane::{EgressInput, IngressInput, Packet, Pipeline, Verdict};
use tributary_p4::ir::*;

pub use self::engine::load;

/// A program under construction.
pub struct Builder {
    pub program: Program,
    pub verify: Vec<Stmt>,
    pub ingress: Vec<Stmt>,
    pub egress: Vec<Stmt>,
    pub compute: Vec<Stmt>,
    pub deparser: Vec<Stmt>,
    pub states: Vec<State>,
}

const STANDARD: [(&str, u32); 15] = [
    ("ingress_port", 9),
    ("egress_spec", 9),
    ("egress_port", 9),
    ("instance_type", 32),
    ("packet_length", 32),
    ("enq_timestamp", 32),
    ("enq_qdepth", 19),
    ("deq_timedelta", 32),
    ("deq_qdepth", 19),
    ("ingress_global_timestamp", 48),
    ("egress_global_timestamp", 48),
    ("mcast_grp", 16),
    ("egress_rid", 16),
    ("checksum_error", 1),
    ("parser_error", 32),
];

pub const ERRORS: [&str; 7] = [
    "NoError",
    "PacketTooShort",
    "NoMatch",
    "StackOutOfBounds",
    "HeaderTooShort",
    "ParserTimeout",
    "ParserInvalidArgument",
];

impl Builder {
    pub fn new() -> Self {
        let mut builder = Self {
            program: Program {
                package: "V1Switch".to_owned(),
                errors: ERRORS.map(str::to_owned).to_vec(),
                ..Program::default()
            },
            verify: Vec::new(),
            ingress: Vec::new(),
            egress: Vec::new(),
            compute: Vec::new(),
            deparser: Vec::new(),
            states: Vec::new(),
        };
        for (name, width) in STANDARD {
            let field = builder.field(name, Scalar::bit(width), FieldRole::Intrinsic);
            builder.program.intrinsic.push((name.to_owned(), field));
        }
        builder
    }

    pub fn field(&mut self, name: &str, ty: Scalar, role: FieldRole) -> FieldId {
        self.program.fields.push(Field { name: name.to_owned(), ty, role });
        FieldId(self.program.fields.len() as u32 - 1)
    }

    pub fn meta(&mut self, name: &str, width: u32) -> FieldId {
        self.field(name, Scalar::bit(width), FieldRole::Metadata)
    }

    pub fn standard(&self, name: &str) -> FieldId {
        self.program.intrinsic_field(name).unwrap()
    }

    /// A header; its fields' names are their positions.
    pub fn header(&mut self, name: &str, types: &[Scalar]) -> HeaderId {
        let id = HeaderId(self.program.headers.len() as u32);
        let fields = types
            .iter()
            .enumerate()
            .map(|(i, &ty)| self.field(&format!("{name}.{i}"), ty, FieldRole::Header(id)))
            .collect();
        let valid = self.field(&format!("{name}.$valid"), Scalar::BOOL, FieldRole::Validity(id));
        self.program.headers.push(Header {
            name: name.to_owned(),
            type_name: format!("{name}_t"),
            fields,
            valid,
            varbit: None,
        });
        id
    }

    pub fn bits_header(&mut self, name: &str, widths: &[u32]) -> HeaderId {
        let types: Vec<Scalar> = widths.iter().map(|&width| Scalar::bit(width)).collect();
        self.header(name, &types)
    }

    pub fn stack(&mut self, name: &str, widths: &[u32], size: usize) -> StackId {
        let elements =
            (0..size).map(|i| self.bits_header(&format!("{name}[{i}]"), widths)).collect();
        let next_index =
            self.field(&format!("{name}.nextIndex"), Scalar::bit(32), FieldRole::Local);
        self.program.stacks.push(Stack { name: name.to_owned(), elements, next_index });
        StackId(self.program.stacks.len() as u32 - 1)
    }

    /// Field `i` of a header.
    pub fn of(&self, header: HeaderId, i: usize) -> FieldId {
        self.program.headers[header.index()].fields[i]
    }

    pub fn get(&self, field: FieldId) -> Expr {
        Expr { ty: self.program.fields[field.index()].ty, kind: ExprKind::Field(field) }
    }

    pub fn set(&self, field: FieldId, value: u64) -> Stmt {
        let ty = self.program.fields[field.index()].ty;
        Stmt::Assign(Place::Field(field), lit(ty, value))
    }

    pub fn instance(&mut self, type_name: &str, name: &str, width: u32, size: u128) -> ExternId {
        self.program.externs.push(Extern {
            name: name.to_owned(),
            type_name: type_name.to_owned(),
            type_args: vec![Scalar::bit(width)],
            args: vec![CtorArg::Int(size)],
            annotations: Vec::new(),
        });
        ExternId(self.program.externs.len() as u32 - 1)
    }

    pub fn read(&self, register: ExternId, to: FieldId, index: Expr) -> Stmt {
        let ty = self.program.fields[to.index()].ty;
        method(register, "read", vec![Arg::Out(Place::Field(to), ty), Arg::In(index)])
    }

    pub fn write(&self, register: ExternId, index: Expr, value: Expr) -> Stmt {
        method(register, "write", vec![Arg::In(index), Arg::In(value)])
    }

    /// An action; its body may use the parameters.
    pub fn action(
        &mut self,
        name: &str,
        widths: &[u32],
        body: impl FnOnce(&Self, &[FieldId]) -> Vec<Stmt>,
    ) -> ActionId {
        let params: Vec<FieldId> = widths
            .iter()
            .enumerate()
            .map(|(i, &width)| {
                self.field(&format!("{name}.{i}"), Scalar::bit(width), FieldRole::ActionParam)
            })
            .collect();
        let body = body(self, &params);
        self.program.actions.push(Action {
            name: name.to_owned(),
            params,
            annotations: Vec::new(),
            body,
        });
        ActionId(self.program.actions.len() as u32 - 1)
    }

    /// A table whose default action is its last one, without arguments.
    pub fn table(
        &mut self,
        keys: Vec<(Expr, MatchKind)>,
        actions: &[ActionId],
        entries: Vec<Entry>,
    ) -> TableId {
        let number = self.program.tables.len();
        self.program.tables.push(Table {
            name: format!("table{number}"),
            keys: keys
                .into_iter()
                .enumerate()
                .map(|(i, (value, kind))| Key {
                    name: i.to_string(),
                    value,
                    kind,
                    annotations: Vec::new(),
                })
                .collect(),
            actions: actions
                .iter()
                .map(|&action| TableAction {
                    action,
                    prologue: Vec::new(),
                    scope: Scope::default(),
                })
                .collect(),
            default_action: ActionCall { action: actions.len() as u32 - 1, args: Vec::new() },
            const_default: false,
            const_entries: !entries.is_empty(),
            entries,
            size: 1024,
            attached: Vec::new(),
            idle_timeout: false,
            empty_group: None,
            annotations: Vec::new(),
        });
        TableId(number as u32)
    }

    /// The parser extracts these headers in order, and the deparser emits them.
    pub fn straight(&mut self, headers: &[HeaderId]) {
        let body = headers
            .iter()
            .map(|&header| Stmt::Extract { header: HeaderRef::Fixed(header), varbit_bits: None })
            .collect();
        self.state(body, Transition::To(Target::Accept));
        self.deparser.extend(headers.iter().map(|&header| Stmt::Emit(HeaderRef::Fixed(header))));
    }

    pub fn state(&mut self, body: Vec<Stmt>, transition: Transition) {
        let name = format!("state{}", self.states.len());
        self.states.push(State { name, body, transition });
    }

    pub fn build(mut self) -> Program {
        self.program.parsers.push(Parser { name: "p".to_owned(), states: self.states });
        self.program.blocks.push(("p".to_owned(), Block::Parser(ParserId(0))));
        let controls = [
            ("vr", self.verify),
            ("ig", self.ingress),
            ("eg", self.egress),
            ("ck", self.compute),
            ("dep", self.deparser),
        ];
        for (i, (role, body)) in controls.into_iter().enumerate() {
            self.program.controls.push(Control { name: role.to_owned(), body });
            self.program.blocks.push((role.to_owned(), Block::Control(ControlId(i as u32))));
        }
        self.program
    }

    pub fn load(self) -> Pipeline {
        load(self.build()).unwrap()
    }
}

pub fn lit(ty: Scalar, value: u64) -> Expr {
    let mut limbs = vec![0; ty.limbs()];
    limbs[0] = value;
    Expr { ty, kind: ExprKind::Const(limbs.into()) }
}

pub fn bit(width: u32, value: u64) -> Expr {
    lit(Scalar::bit(width), value)
}

pub fn words(value: u64) -> Box<[u64]> {
    vec![value].into()
}

pub fn assign(to: FieldId, value: Expr) -> Stmt {
    Stmt::Assign(Place::Field(to), value)
}

pub fn binary(op: BinaryOp, ty: Scalar, a: Expr, b: Expr) -> Expr {
    Expr { ty, kind: ExprKind::Binary(op, Box::new(a), Box::new(b)) }
}

pub fn cast(ty: Scalar, value: Expr) -> Expr {
    Expr { ty, kind: ExprKind::Cast(Box::new(value)) }
}

pub fn method(instance: ExternId, name: &str, args: Vec<Arg>) -> Stmt {
    Stmt::Call(ExternCall { instance: Some(instance), method: name.to_owned(), args })
}

pub fn function(name: &str, args: Vec<Arg>) -> Stmt {
    Stmt::Call(ExternCall { instance: None, method: name.to_owned(), args })
}

pub fn apply(table: TableId) -> Stmt {
    Stmt::Apply { table, hit: None, action: None }
}

/// Both passes of a frame that is not dropped. Returns the outgoing frame.
pub fn pass(pipeline: &mut Pipeline, packet: &mut Packet, frame: &[u8]) -> Vec<u8> {
    let ingress = pipeline.ingress(packet, frame, &IngressInput::default());
    assert_ne!(ingress.verdict, Verdict::Drop);
    let mut out = Vec::new();
    let egress = pipeline.egress(packet, &EgressInput::default(), &mut out);
    assert!(!egress.drop);
    out
}
