//! Declarations.

use std::fmt::Write;

/// A type of generated values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ty {
    Bit(u32),
    Int(u32),
    Bool,
    /// An enum without a representation, by number.
    Enum(usize),
    Error,
}

impl std::fmt::Display for Ty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ty::Bit(width) => write!(f, "bit<{width}>"),
            Ty::Int(width) => write!(f, "int<{width}>"),
            Ty::Bool => f.write_str("bool"),
            Ty::Enum(number) => write!(f, "e{number}_t"),
            Ty::Error => f.write_str("error"),
        }
    }
}

pub(super) const WIDTHS: [u32; 8] = [1, 3, 8, 13, 16, 32, 64, 100];

/// Replacements that introduce an error.
const MISTAKES: [&str; 28] = [
    "",
    ";",
    "}",
    "{",
    "(",
    ")",
    "0",
    "-1",
    "8w256",
    "3s9",
    "_",
    "...",
    "{#}",
    "1 +",
    "nothing",
    "hdr",
    "hdr.h0",
    "meta.nothing",
    "bit<0>",
    "@",
    "\"",
    "default",
    "exact",
    "e0_t",
    "&&& 3",
    "for (",
    "return",
    "\u{e9}",
];

/// A function: its name, the types of its parameters, and its result.
pub(super) type Function = (String, Vec<Ty>, Ty);

/// Generates a program from a seed.
pub(super) struct Draw {
    state: u64,
    /// One in this many items is an error; 0 for no errors.
    often: u64,
    /// Fields of each header type.
    headers: Vec<Vec<Ty>>,
    enums: Vec<usize>,
    pub(super) functions: Vec<Function>,
    /// Readable names, and whether they are writable.
    pub(super) scope: Vec<(String, Ty, bool)>,
    pub(super) names: usize,
    /// Number of loops around the current statement.
    pub(super) loops: usize,
    pub(super) in_parser: bool,
    pub(super) tables: Vec<String>,
    pub(super) actions: Vec<String>,
}

impl Draw {
    pub(super) fn new(seed: u64, often: u64) -> Self {
        Self {
            state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(often),
            often,
            headers: Vec::new(),
            enums: Vec::new(),
            functions: Vec::new(),
            scope: Vec::new(),
            names: 0,
            loops: 0,
            in_parser: false,
            tables: Vec::new(),
            actions: Vec::new(),
        }
    }

    /// The next number of SplitMix64, below a bound.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }

    pub(super) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(super) fn pick<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }

    /// The text, or an error.
    pub(super) fn or_mistake(&mut self, text: String) -> String {
        if self.often == 0 || self.below(self.often as usize) != 0 {
            return text;
        }
        let mistake = self.pick(&MISTAKES);
        match self.below(3) {
            0 => format!("{text} {mistake}"),
            1 => format!("{mistake} {text}"),
            _ => mistake.to_owned(),
        }
    }

    pub(super) fn name(&mut self, of: &str) -> String {
        self.names += 1;
        format!("{of}{}", self.names)
    }

    pub(super) fn ty(&mut self) -> Ty {
        match self.below(10) {
            0 => Ty::Bool,
            1 => Ty::Enum(self.below(self.enums.len())),
            2 => Ty::Error,
            3 | 4 => Ty::Int(2 + self.pick(&WIDTHS)),
            _ => Ty::Bit(self.pick(&WIDTHS)),
        }
    }

    pub(super) fn members(&self, of: usize) -> usize {
        self.enums[of]
    }

    /// The whole program.
    pub(super) fn program(mut self) -> String {
        let mut text = "#include <core.p4>\n#include <v1model.p4>\n".to_owned();
        self.types(&mut text);
        for _ in 0..self.below(4) {
            let function = self.function();
            text += &self.or_mistake(function);
        }
        text += &self.parser();
        text += "control V(inout headers_t hdr, inout meta_t meta) { apply { } }\n";
        for name in ["I", "E"] {
            text += &self.control(name);
        }
        text += "control C(inout headers_t hdr, inout meta_t meta) { apply { } }
control D(packet_out p, in headers_t hdr) { apply { p.emit(hdr); } }\n";
        let main = self.or_mistake("V1Switch(P(), V(), I(), E(), C(), D())".to_owned());
        text + &main + " main;\n"
    }

    fn types(&mut self, text: &mut String) {
        for number in 0..1 + self.below(3) {
            let members = 1 + self.below(4);
            self.enums.push(members);
            let list: Vec<String> = (0..members).map(|member| format!("m{member}")).collect();
            let declaration = format!("enum e{number}_t {{ {} }}\n", list.join(", "));
            *text += &self.or_mistake(declaration);
        }
        let declaration = "error { Drawn }\nconst bit<8> NUMBER = 7;\ntypedef bit<16> short_t;\n";
        *text += &self.or_mistake(declaration.to_owned());
        for number in 0..1 + self.below(3) {
            let mut fields = Vec::new();
            let mut bits = 0;
            for _ in 0..1 + self.below(4) {
                let ty = match self.below(4) {
                    0 => Ty::Int(2 + self.pick(&WIDTHS)),
                    1 => Ty::Bool,
                    _ => Ty::Bit(self.pick(&WIDTHS)),
                };
                bits += match ty {
                    Ty::Bit(width) | Ty::Int(width) => width,
                    _ => 1,
                };
                fields.push(ty);
            }
            if bits % 8 != 0 {
                fields.push(Ty::Bit(8 - bits % 8));
            }
            let mut declaration = format!("header h{number}_t {{ ");
            for (field, ty) in fields.iter().enumerate() {
                let _ = write!(declaration, "{ty} f{field}; ");
            }
            *text += &self.or_mistake(declaration + "}\n");
            self.headers.push(fields);
        }
        let members: Vec<String> =
            (0..self.headers.len()).map(|h| format!("h{h}_t h{h};")).collect();
        let members = members.join(" ");
        let aggregates = format!(
            "header_union u_t {{ {members} }}
header o_t {{ bit<8> length; varbit<64> data; }}
struct pair_t<A, B> {{ A a; B b; }}
struct headers_t {{ {members} h0_t[3] stack; u_t u; o_t options; }}
struct meta_t {{ bit<8> x; int<8> y; bool z; pair_t<bit<16>, bit<8>> pair; u_t u; }}\n"
        );
        *text += &self.or_mistake(aggregates);
    }

    /// Declares the names available in a parser or control.
    fn enter(&mut self) {
        self.scope.clear();
        for (number, fields) in self.headers.iter().enumerate() {
            for (field, ty) in fields.iter().enumerate() {
                for base in ["hdr", "hdr.u", "meta.u"] {
                    self.scope.push((format!("{base}.h{number}.f{field}"), *ty, true));
                }
                if number == 0 {
                    self.scope.push((format!("hdr.stack[1].f{field}"), *ty, true));
                }
            }
        }
        for (name, ty) in [
            ("meta.x", Ty::Bit(8)),
            ("meta.y", Ty::Int(8)),
            ("meta.z", Ty::Bool),
            ("meta.pair.a", Ty::Bit(16)),
            ("meta.pair.b", Ty::Bit(8)),
            ("sm.egress_spec", Ty::Bit(9)),
        ] {
            self.scope.push((name.to_owned(), ty, true));
        }
        self.scope.push(("sm.parser_error".to_owned(), Ty::Error, false));
    }

    pub(super) fn header(&mut self) -> String {
        let number = self.below(self.headers.len());
        let base = self.pick(&["hdr", "hdr.u", "meta.u"]);
        format!("{base}.h{number}")
    }

    fn function(&mut self) -> String {
        let name = self.name("f");
        let ret = self.ty();
        let types: Vec<Ty> = (0..self.below(3)).map(|_| self.ty()).collect();
        let params = types.iter().enumerate().map(|(i, ty)| format!("in {ty} p{i}"));
        let params = params.collect::<Vec<_>>().join(", ");
        self.scope = (0..).zip(&types).map(|(i, ty)| (format!("p{i}"), *ty, false)).collect();
        let body = self.plain_statements(2);
        let result = self.expression(ret, 2);
        let text = format!("{ret} {name}({params}) {{ {body} return {result}; }}\n");
        self.functions.push((name, types, ret));
        text
    }

    fn parser(&mut self) -> String {
        self.enter();
        self.in_parser = true;
        let states = 1 + self.below(3);
        let mut text = "parser P(packet_in p, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    value_set<bit<8>>(4) known;
    state start { transition s0; }\n"
            .to_owned();
        for state in 0..states {
            let extract = match self.below(4) {
                0 => "p.extract(hdr.stack.next);".to_owned(),
                1 => "p.extract(hdr.options, 8 * (bit<32>) p.lookahead<bit<2>>());".to_owned(),
                _ => format!("p.extract({});", self.header()),
            };
            let extract = self.or_mistake(extract);
            let statement = self.statement(1);
            let next = |draw: &mut Self| match draw.below(4) {
                0 => "accept".to_owned(),
                1 => "reject".to_owned(),
                _ => format!("s{}", draw.below(states)),
            };
            // Some path leads to an end.
            let onward = |draw: &mut Self| match draw.below(4) {
                0 => "accept".to_owned(),
                1 => "reject".to_owned(),
                _ if state + 1 < states => format!("s{}", state + 1),
                _ => "accept".to_owned(),
            };
            let transition = if self.one_in(2) {
                onward(self)
            } else {
                let (on, value) = (self.expression(Ty::Bit(8), 1), self.below(256));
                let targets = [next(self), next(self), next(self), onward(self)];
                let [a, b, c, d] = targets;
                let select = format!(
                    "select({on}, meta.z) {{ ({value}, _): {a}; (1 .. 5, true): {b}; \
                     (0x80 &&& 0xf0, false): {c}; (known, _): {a}; default: {d}; }}"
                );
                self.or_mistake(select)
            };
            let end = if transition.ends_with('}') { "" } else { ";" };
            let _ = writeln!(
                text,
                "    state s{state} {{ {extract} {statement} transition {transition}{end} }}"
            );
        }
        self.in_parser = false;
        text + "}\n"
    }

    fn control(&mut self, name: &str) -> String {
        self.enter();
        self.tables.clear();
        self.actions.clear();
        let mut text = format!(
            "control {name}(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {{\n"
        );
        for _ in 0..1 + self.below(3) {
            let action = self.name("a");
            let outer = self.scope.len();
            let ty = Ty::Bit(self.pick(&WIDTHS));
            self.scope.push(("data".to_owned(), ty, false));
            let body = self.plain_statements(2);
            self.scope.truncate(outer);
            let declaration = format!("    action {action}({ty} data) {{ {body} }}\n");
            text += &self.or_mistake(declaration);
            self.actions.push(action);
        }
        for _ in 0..self.below(3) {
            let table = self.name("t");
            let declaration = self.table(&table);
            text += &self.or_mistake(declaration);
            self.tables.push(table);
        }
        let body = self.statements(4);
        text + &format!("    apply {{\n{body}    }}\n}}\n")
    }

    fn table(&mut self, name: &str) -> String {
        let actions: Vec<String> = self.actions.iter().map(|a| format!("{a};")).collect();
        let readable: Vec<String> = self
            .scope
            .iter()
            .filter(|(_, ty, _)| matches!(ty, Ty::Bit(_)))
            .map(|(name, ..)| name.clone())
            .collect();
        let (a, b) = (self.pick(&readable), self.pick(&readable));
        let kind = self.pick(&["exact", "ternary", "lpm", "range", "optional"]);
        let first = self.pick(&self.actions.clone());
        let argument = self.below(2);
        let entries = match kind {
            "ternary" => format!("const entries = {{ (0, 1 &&& 1) : {first}({argument}); }}"),
            "range" => format!("entries = {{ priority = 3: (1, 0 .. 1) : {first}({argument}); }}"),
            _ => String::new(),
        };
        let actions = actions.join(" ");
        format!(
            "    table {name} {{ key = {{ {a} : exact; {b} : {kind} @name(\"second\"); }} \
             actions = {{ {actions} NoAction; }} {entries} \
             default_action = {first}(0); size = 16; }}\n"
        )
    }
}
