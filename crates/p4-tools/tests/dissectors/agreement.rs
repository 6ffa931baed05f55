//! The switch's interpreter and a dissector with the same packet: what the parser extracts must be what
//! is shown.

use std::collections::{BTreeMap, BTreeSet};

use tributary_dataplane::{EngineKind, IngressInput, Pipeline};
use tributary_p4::Block;
use tributary_p4::ir::{
    Arg, CtorArg, Expr, ExprKind, Extern, ExternCall, ExternId, FieldId, FieldRole, HeaderId,
    HeaderRef, Place as Lvalue, Program, Scalar, Stmt,
};
use tributary_p4_tools::dissector::{Dissector, Options, Place, generate};

use crate::screen::{Line, Screen};

/// A program with registers that keep what its parser has extracted.
pub(crate) struct Subject {
    pipeline: Pipeline,
    screen: Screen,
    pub(crate) dissector: Dissector,
    headers: Vec<Watched>,
}

/// A header and the registers of its validity and fields.
struct Watched {
    name: String,
    valid: ExternId,
    /// Width and register of each field; none for a varbit, and where the parser assigns a value.
    fields: Vec<Option<(usize, ExternId)>>,
}

impl Subject {
    pub(crate) fn new(mut program: Program) -> Self {
        let options = Options { place: Some(Place::Frames), ..Options::for_file("test.p4") };
        let dissector = generate(&program, &options).unwrap();
        let screen = Screen::new(&dissector.text);
        let headers = watch(&mut program);
        let mut pipeline = Pipeline::load(program).unwrap();
        pipeline.use_engine(EngineKind::Interpreter);
        Self { pipeline, screen, dissector, headers }
    }

    /// Compares what both make of a frame. Returns the number of headers.
    pub(crate) fn compare(&mut self, frame: &[u8]) -> usize {
        let mut packet = self.pipeline.new_packet();
        self.zero();
        self.pipeline.ingress(&mut packet, frame, &IngressInput::default());
        let shown = self.screen.show(frame, 0);
        // Of a header that was extracted twice, the last one counts.
        let mut extracted: BTreeMap<String, Vec<&Line>> = BTreeMap::new();
        let mut current = None;
        for line in shown.lines.iter().skip(1) {
            if let Some(title) = &line.text {
                let name = title.split(" (").next().unwrap().to_owned();
                extracted.insert(name.clone(), Vec::new());
                current = Some(name);
            } else if let Some(name) = &current {
                extracted.get_mut(name).unwrap().push(line);
            }
        }
        let why = shown.stopped();
        let incomplete = why.is_some_and(|why| why.contains("depends on"));
        for header in &self.headers {
            let valid = self.register(header.valid) == "1";
            // A header without bits has no line.
            let is_empty = header.fields.iter().all(|field| matches!(field, Some((0, _))));
            let Some(lines) = extracted.get(&header.name) else {
                assert!(
                    !valid || incomplete || is_empty,
                    "{} is not shown ({why:?}) of {frame:02x?}\n{}",
                    header.name,
                    self.dissector.text
                );
                continue;
            };
            // A member of a union is not valid any more when another one is.
            if !valid {
                assert!(header.name.contains('.'), "{} is not valid", header.name);
                continue;
            }
            // An empty varbit has no line.
            let empty = header.fields.len() - lines.len();
            assert!(empty <= 1, "{} has {} lines", header.name, lines.len());
            let fields = header.fields.iter().filter(|field| empty == 0 || field.is_some());
            for (field, line) in fields.zip(lines) {
                let Some((width, register)) = field else { continue };
                let wanted = self.register(*register);
                let wanted = format!("{wanted:0>width$}");
                let name = &header.name;
                assert_eq!(line.last(*width), wanted, "{name} {line:?} of {frame:02x?}");
            }
        }
        extracted.len()
    }

    /// The digits in a register.
    fn register(&self, register: ExternId) -> String {
        let bytes = self.pipeline.register_read(register, 0).unwrap().to_be_bytes();
        let digits: String = bytes.iter().map(|byte| format!("{byte:08b}")).collect();
        digits.trim_start_matches('0').to_owned()
    }

    fn zero(&mut self) {
        let headers = &self.headers;
        for register in headers.iter().map(|header| header.valid) {
            self.pipeline.register_write(register, 0, &0_u64.into()).unwrap();
        }
    }
}

/// Collects the fields to which statements assign, and the headers that they copy from others, as with
/// those of a sub-parser.
fn assigned(stmts: &[Stmt], all: &mut BTreeSet<FieldId>, copies: &mut BTreeSet<HeaderId>) {
    for stmt in stmts {
        match stmt {
            Stmt::Assign(Lvalue::Field(field) | Lvalue::Slice(field, ..), _) => {
                all.insert(*field);
            }
            Stmt::CopyHeader { to: HeaderRef::Fixed(to), .. } => {
                copies.insert(*to);
            }
            Stmt::If { then, otherwise, .. } => {
                assigned(then, all, copies);
                assigned(otherwise, all, copies);
            }
            Stmt::Block(body) | Stmt::Loop(_, body) | Stmt::Labelled(_, body) => {
                assigned(body, all, copies);
            }
            _ => {}
        }
    }
}

/// Makes the ingress control of a v1model program begin with copies of all headers to registers.
fn watch(program: &mut Program) -> Vec<Watched> {
    let mut writes = Vec::new();
    let mut watched = Vec::new();
    // The dissector shows what is in the packet, not what the parser puts in its place.
    let (mut changed, mut copies) = (BTreeSet::new(), BTreeSet::new());
    for state in program.parsers.iter().flat_map(|parser| &parser.states) {
        assigned(&state.body, &mut changed, &mut copies);
    }
    for id in 0..program.headers.len() {
        let header = program.headers[id].clone();
        let is_real = |field: &FieldId| {
            program.fields[field.index()].role == FieldRole::Header(HeaderId(id as u32))
        };
        let is_copy = copies.contains(&HeaderId(id as u32));
        if is_copy || !header.name.starts_with("hdr.") || !header.fields.iter().all(is_real) {
            continue;
        }
        let register = |program: &mut Program, field: FieldId| {
            let ty = program.fields[field.index()].ty;
            let width = Scalar::bit(ty.width);
            program.externs.push(Extern {
                name: format!("watch{}", program.externs.len()),
                type_name: "register".into(),
                type_args: vec![width],
                args: vec![CtorArg::Int(1)],
                annotations: Vec::new(),
            });
            let instance = ExternId(program.externs.len() as u32 - 1);
            let value = Expr { ty, kind: ExprKind::Field(field) };
            let value = Expr { ty: width, kind: ExprKind::Cast(Box::new(value)) };
            let zero = Expr { ty: Scalar::bit(32), kind: ExprKind::Const(Box::new([0])) };
            let args = vec![Arg::In(zero), Arg::In(value)];
            let call = ExternCall { instance: Some(instance), method: "write".into(), args };
            (instance, Stmt::Call(call))
        };
        let (valid, write) = register(program, header.valid);
        writes.push(write);
        let mut fields = Vec::new();
        for (at, &field) in header.fields.iter().enumerate() {
            if header.varbit.is_some_and(|(varbit, _)| varbit == at) || changed.contains(&field) {
                fields.push(None);
                continue;
            }
            let (instance, write) = register(program, field);
            writes.push(write);
            fields.push(Some((program.fields[field.index()].ty.width as usize, instance)));
        }
        let name = header.name.strip_prefix("hdr.").unwrap().to_owned();
        watched.push(Watched { name, valid, fields });
    }
    let Some(Block::Control(ingress)) = program.block("ig") else {
        panic!("v1model has an ingress")
    };
    program.controls[ingress.index()].body.splice(0..0, writes);
    watched
}
