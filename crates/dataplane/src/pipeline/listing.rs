//! The flat code of a program as text, for people.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Pipeline;
use crate::code::{Op, Pc};
use crate::error::LoadError;

impl Pipeline {
    /// The program as the interpreter runs it: where fields and constants are in a packet's words,
    /// then the operations with their numbers. Its form is not an interface.
    ///
    /// # Errors
    /// None for a program that was loaded.
    pub fn listing(&mut self) -> Result<String, LoadError> {
        self.prepare_observation()?;
        let code = &self.engine.code;
        let mut out = format!("{} words\n", code.words);
        let items = self.traced.iter().flat_map(|traced| &traced.fields);
        for (field, item) in self.program.fields.iter().zip(items) {
            line(&mut out, format_args!("word {}: {} {}", item.slot, field.ty, field.name));
        }
        for (slot, value) in code.constants.iter().collect::<BTreeMap<_, _>>() {
            line(&mut out, format_args!("word {slot} = {value:#x}"));
        }
        let labels = self.labels();
        for (pc, op) in (0..).zip(&code.ops) {
            for label in labels.get(&pc).into_iter().flatten() {
                line(&mut out, format_args!("{label}:"));
            }
            line(&mut out, format_args!("{pc:6}  {op:?}"));
            // What operations refer to by number.
            match *op {
                Op::Wide(number) => {
                    line(&mut out, format_args!("        {:?}", code.wides[number as usize]));
                }
                Op::Extern(number) => {
                    line(&mut out, format_args!("        {:?}", code.externs[number as usize]));
                }
                Op::RegisterRun(number) => {
                    line(&mut out, format_args!("        {:?}", code.runs[number as usize]));
                }
                _ => {}
            }
        }
        Ok(out)
    }

    /// Names of operations: starts of blocks and of the actions of tables.
    fn labels(&self) -> BTreeMap<Pc, Vec<String>> {
        let code = &self.engine.code;
        let mut labels: BTreeMap<Pc, Vec<String>> = BTreeMap::new();
        for (number, pc) in code.blocks.iter().enumerate() {
            labels.entry(*pc).or_default().push(format!("block {number}"));
        }
        for (table, ir) in code.tables.iter().zip(&self.program.tables) {
            for (action, offered) in table.actions.iter().zip(&ir.actions) {
                let name = &self.program.actions[offered.action.index()].name;
                let label = format!("action {name} of table {}", ir.name);
                labels.entry(action.entry).or_default().push(label);
            }
        }
        labels
    }
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(out, "{text}");
}
