//! The layouts of the headers that a parser extracts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use tributary_p4::ir::visit::{self, Visit};
use tributary_p4::ir::{FieldId, Header, HeaderId, Parser, Program, Stmt};

use crate::dissector::lua;
use crate::dissector::plan::{Plan, candidates};

/// The type of the values in our own programs, which are in two's complement.
const VALUES: &str = "values_t";

/// Names of values that several fields share, by the names: number of the Lua table.
type Tables = BTreeMap<Vec<(u64, String)>, usize>;

/// Calls of the runtime that describe the headers.
pub(crate) fn describe(program: &Program, parser: &Parser, plan: &Plan) -> String {
    let mut extracted = Extracted { program, headers: BTreeSet::new() };
    parser.states.iter().for_each(|state| extracted.visit_body(&state.body));
    let mut tables = Tables::new();
    let mut filters = Filters::default();
    let mut text = String::new();
    for id in extracted.headers {
        let header = &program.headers[id.index()];
        let fields = lines(program, header, plan, &mut tables);
        // The elements of a stack have the same fields.
        let filter = filters.choose(&filter_name(&header.name), &shape(program, header));
        let _ = writeln!(
            text,
            "headers[{}] = header {{ filter = {}, name = {}, type = {}, valid = {}, length = {},",
            id.0 + 1,
            lua::string(&filter),
            lua::string(local_name(&header.name)),
            lua::string(&header.type_name),
            slot(plan, Some(header.valid)),
            slot(plan, header.varbit.map(|(_, length)| length)),
        );
        text.push_str(&fields);
        text.push_str("}\n");
    }
    let mut declared = String::from("\nlocal names = {}\n");
    let mut by_number: Vec<_> = tables.into_iter().collect();
    by_number.sort_by_key(|(_, number)| *number);
    for (names, number) in by_number {
        let pairs: Vec<_> = names
            .iter()
            .map(|(value, name)| format!("[{value}] = {}", lua::string(name)))
            .collect();
        let _ = writeln!(declared, "names[{number}] = {{ {} }}", pairs.join(", "));
    }
    declared + "\n" + &text
}

/// Collects the headers that statements extract.
struct Extracted<'p> {
    program: &'p Program,
    headers: BTreeSet<HeaderId>,
}

impl<'p> Visit<'p> for Extracted<'p> {
    fn visit_stmt(&mut self, stmt: &'p Stmt) {
        if let Stmt::Extract { header, .. } = stmt {
            self.headers.extend(candidates(self.program, header));
        }
        visit::walk_stmt(self, stmt);
    }
}

/// The descriptions of a header's fields, one line each.
fn lines(program: &Program, header: &Header, plan: &Plan, tables: &mut Tables) -> String {
    let mut text = String::new();
    let mut filters = Filters::default();
    for (at, &id) in header.fields.iter().enumerate() {
        let field = &program.fields[id.index()];
        let name = field.name.strip_prefix(&header.name).unwrap_or(&field.name);
        let name = name.trim_start_matches('.');
        let filter = filters.choose(&allowed(name), &at.to_string());
        let _ = write!(
            text,
            "  {{ {}, {}, {}",
            lua::string(&filter),
            lua::string(name),
            field.ty.width
        );
        if is_signed(program, header, id) {
            text.push_str(", signed = true");
        }
        if header.varbit.is_some_and(|(varbit, _)| varbit == at) {
            text.push_str(", varbit = true");
        }
        if let Some(slot) = plan.slot(id) {
            let _ = write!(text, ", slot = {slot}");
        }
        let names = names(program, id, field.ty.width);
        if !names.is_empty() {
            let next = tables.len() + 1;
            let number = *tables.entry(names).or_insert(next);
            let _ = write!(text, ", names = names[{number}]");
        }
        text.push_str(" },\n");
    }
    text
}

/// Whether a field is shown as a signed number.
fn is_signed(program: &Program, header: &Header, field: FieldId) -> bool {
    program.fields[field.index()].ty.signed || header.type_name == VALUES
}

/// The names of a field's values, if it fits a table of Wireshark.
fn names(program: &Program, field: FieldId, width: u32) -> Vec<(u64, String)> {
    if width > lua::NUMBER_BITS {
        return Vec::new();
    }
    let names = program.names.of(field).into_iter();
    names.map(|(value, name)| (value, name.to_owned())).collect()
}

/// What must be equal in headers that share the names of their fields.
fn shape(program: &Program, header: &Header) -> String {
    let mut text = String::new();
    for id in &header.fields {
        let field = &program.fields[id.index()];
        let name = field.name.strip_prefix(&header.name).unwrap_or(&field.name);
        let signed = is_signed(program, header, *id);
        let _ = write!(text, "{name} {} {signed} {:?};", field.ty, program.names.of(*id));
    }
    text
}

fn slot(plan: &Plan, field: Option<FieldId>) -> String {
    field.and_then(|field| plan.slot(field)).map_or("nil".into(), |slot| slot.to_string())
}

/// The name of a header without that of the parameter that contains it.
fn local_name(name: &str) -> &str {
    name.split_once('.').map_or(name, |(_, rest)| rest)
}

/// The name of a header in display filters: without indices of stacks.
fn filter_name(name: &str) -> String {
    let mut text = String::new();
    let mut inside = false;
    for c in local_name(name).chars() {
        match c {
            '[' => inside = true,
            ']' => inside = false,
            c if !inside => text.push(c),
            _ => {}
        }
    }
    allowed(&text)
}

/// A name with the characters that Wireshark allows.
fn allowed(name: &str) -> String {
    let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let text: String =
        name.chars().filter(|c| *c != ']').map(|c| if letter(c) { c } else { '_' }).collect();
    let text = text.trim_matches('.').replace("..", ".");
    if text.is_empty() { "_".into() } else { text }
}

/// Names in use, with the meaning of each.
#[derive(Debug, Default)]
struct Filters(BTreeMap<String, String>);

impl Filters {
    /// The name, or the name with a number if it means something else already.
    fn choose(&mut self, name: &str, meaning: &str) -> String {
        for number in 1.. {
            let name = if number == 1 { name.to_owned() } else { format!("{name}_{number}") };
            let known = self.0.entry(name.clone()).or_insert_with(|| meaning.to_owned());
            if known == meaning {
                return name;
            }
        }
        unreachable!("there are more numbers than names")
    }
}
