//! Counters, registers and meters.

use tributary_dataplane::{CounterData, Owner, Value};
use tributary_p4::ir::{ExternId, TableId};

use super::{EntryId, Run, names};
use crate::stf::error::{Failure, Place};
use crate::stf::number::Number;
use crate::stf::script::{At, Condition, CounterCheck, Name, Statement};

impl Run<'_> {
    /// Executes a statement about persistent state.
    pub(super) fn state(&mut self, place: Place, statement: &Statement) -> Result<(), Failure> {
        match statement {
            Statement::CheckCounter { counter, at, check } => {
                self.check_counter(counter, at, *check)
            }
            Statement::CounterRead { counter, index } => {
                self.check_counter(counter, &At::Index(*index), None)
            }
            Statement::CounterWrite { counter, index, packets, bytes } => {
                let id = self.extern_id("counter", &["counter", "Counter"], counter)?;
                let data = CounterData { packets: *packets, bytes: *bytes };
                let written = self.pipeline_mut().counter_write(id, *index, data);
                written.map_err(|error| place.failure(error))
            }
            Statement::RegisterRead { register, index } => {
                let id = self.register(register)?;
                let read = self.pipeline().register_read(id, index.unwrap_or(0));
                read.map(drop).map_err(|error| place.failure(error))
            }
            Statement::RegisterWrite { register, index, values } => {
                let (id, values) = self.cell(register, values)?;
                for (scalar, value) in values.iter().enumerate() {
                    let pipeline = self.pipeline_mut();
                    let written = pipeline.register_write_scalar(id, *index, scalar, value);
                    written.map_err(|error| place.failure(error))?;
                }
                Ok(())
            }
            Statement::RegisterReset { register } => self.reset(register),
            Statement::Meter { meter, at, rates } => self.meter(meter, at.as_ref(), *rates),
            Statement::Profile { profile, command } => self.profile(profile, command),
            Statement::ValueSet { set, command } => self.value_set(set, command),
            Statement::CheckRegister { register, index, condition, values } => {
                self.check_register(register, *index, *condition, values)
            }
            _ => Ok(()),
        }
    }

    pub(super) fn extern_id(
        &self,
        kind: &str,
        types: &[&str],
        name: &Name,
    ) -> Result<ExternId, Failure> {
        let externs = self.program().externs.iter().enumerate();
        let of_type: Vec<(usize, &str)> = externs
            .filter(|(_, it)| types.contains(&it.type_name.as_str()))
            .map(|(at, it)| (at, it.name.as_str()))
            .collect();
        let found = names::find(kind, name, of_type.iter().map(|(_, name)| *name))?;
        Ok(ExternId(of_type[found].0 as u32))
    }

    fn register(&self, name: &Name) -> Result<ExternId, Failure> {
        self.extern_id("register", &["register", "Register", "RegisterParam"], name)
    }

    fn reset(&mut self, register: &Name) -> Result<(), Failure> {
        let id = self.register(register)?;
        let failed = |error: tributary_dataplane::StateError| register.place.failure(error);
        let scalars = self.pipeline().register_scalars(id).map_err(failed)?;
        for index in 0..self.pipeline().array_size(id).unwrap_or(0) {
            for scalar in 0..scalars {
                let zero = Value::zero();
                let pipeline = self.pipeline_mut();
                pipeline.register_write_scalar(id, index, scalar, &zero).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// A register, and the values of an element of it, as many as the element has scalars.
    fn cell(&self, register: &Name, values: &[Number]) -> Result<(ExternId, Vec<Value>), Failure> {
        let id = self.register(register)?;
        let failed = |error: tributary_dataplane::StateError| register.place.failure(error);
        let scalars = self.pipeline().register_scalars(id).map_err(failed)?;
        if scalars != values.len() {
            let name = &self.program().externs[id.index()].name;
            let given = values.len();
            let reason = format!("an element of {name} has {scalars} values, {given} are given");
            return Err(register.place.failure(reason));
        }
        Ok((id, values.iter().map(Number::zero_filled).collect()))
    }

    fn check_register(
        &self,
        register: &Name,
        index: u64,
        condition: Condition,
        wanted: &[Number],
    ) -> Result<(), Failure> {
        let (id, wanted) = self.cell(register, wanted)?;
        let scalar = |at| self.pipeline().register_read_scalar(id, index, at);
        let got: Result<Vec<Value>, _> = (0..wanted.len()).map(scalar).collect();
        let got = got.map_err(|error| register.place.failure(error))?;
        // A single value is compared as a list of one.
        if condition.holds(&got, &wanted) {
            return Ok(());
        }
        let name = &self.program().externs[id.index()].name;
        let sign = condition.sign();
        let list =
            |values: &[Value]| values.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let (got, wanted) = (list(&got), list(&wanted));
        Err(register
            .place
            .failure(format!("register {name}[{index}] is {got}, not {sign} {wanted}")))
    }

    fn check_counter(
        &self,
        counter: &Name,
        at: &At,
        check: Option<CounterCheck>,
    ) -> Result<(), Failure> {
        let types = ["counter", "Counter", "direct_counter", "DirectCounter"];
        let id = self.extern_id("counter", &types, counter)?;
        let name = &self.program().externs[id.index()].name;
        let (what, data) = match (at, self.table_with(id)) {
            (At::Index(index), None) => {
                let data = self.pipeline().counter_read(id, *index).map_err(|e| e.to_string());
                (format!("{name}[{index}]"), data)
            }
            (at, _) => {
                let entry = self.entry_at(counter, id, at)?;
                (format!("{name} of {}", entry.0), self.direct_counter(&entry.1))
            }
        };
        let data = data.map_err(|reason| counter.place.failure(format!("{what}: {reason}")))?;
        let Some(CounterCheck { bytes, condition, count }) = check else { return Ok(()) };
        let (unit, got) = if bytes { ("bytes", data.bytes) } else { ("packets", data.packets) };
        if condition.holds(&got, &count) {
            return Ok(());
        }
        let sign = condition.sign();
        let reason = format!("counter {what} is at {got} {unit}, not {sign} {count}");
        Err(counter.place.failure(reason))
    }

    /// The table that a direct extern belongs to.
    pub(super) fn table_with(&self, id: ExternId) -> Option<TableId> {
        let at = self.program().tables.iter().position(|table| table.attached.contains(&id))?;
        Some(TableId(at as u32))
    }

    /// The entry whose direct extern is meant, with a name for messages: the entry with a label, or
    /// the entry at an index in the order of insertion, as BMv2 numbers entries.
    pub(super) fn entry_at(
        &self,
        name: &Name,
        id: ExternId,
        at: &At,
    ) -> Result<(String, EntryId), Failure> {
        let fail = |reason: String| name.place.failure(reason);
        match at {
            At::Entry(label) => {
                let entry = self.memory.labels.get(label).cloned().ok_or_else(|| {
                    fail(format!("no entry is called `{label}`: add one with `= {label}`"))
                })?;
                Ok((format!("entry {label}"), entry))
            }
            At::Index(index) => {
                let table = self.table_with(id);
                let table = table.ok_or_else(|| fail("it belongs to no table".to_owned()))?;
                let mut entries = self.pipeline().entries(table);
                let entry = usize::try_from(*index).ok().and_then(|i| entries.nth(i));
                let entry = entry.ok_or_else(|| fail(format!("there is no entry {index}")))?;
                let (matches, priority) = (entry.matches.clone(), entry.priority);
                Ok((format!("entry {index}"), EntryId { table, matches, priority }))
            }
        }
    }

    fn direct_counter(&self, entry: &EntryId) -> Result<CounterData, String> {
        let owner = Owner::Entry(&entry.matches, entry.priority);
        self.pipeline().direct_counter_read(entry.table, owner).map_err(|error| error.to_string())
    }
}
