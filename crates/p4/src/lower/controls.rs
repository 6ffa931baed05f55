//! Controls and actions.

use std::collections::HashMap;
use std::rc::Rc;

use super::calls::{BlockInstance, Frame, returns};
use super::store::{Loc, Store, scalar};
use super::{Binding, Lowerer};
use crate::hir::{self, CallArg, DeclId, Local};
use crate::ir::{self, ActionId, ControlId, FieldId, FieldRole, Stmt};
use crate::types::{Direction, Type};

impl Lowerer<'_, '_> {
    /// A control that the package names.
    pub(super) fn top_control(
        &mut self,
        instance: &Rc<BlockInstance>,
        bindings: HashMap<DeclId, Binding>,
    ) -> ControlId {
        let frame = Frame { bindings, ..Frame::default() };
        let body = self.buffered(|l| l.control_body(instance, frame, Vec::new()));
        let body = if returns(&body) { vec![Stmt::Block(body)] } else { body };
        let id = ControlId(self.program.controls.len() as u32);
        self.program.controls.push(ir::Control { name: instance.block.name.to_string(), body });
        id
    }

    /// The statements of a control, after its parameters have been bound.
    pub(super) fn control_body(
        &mut self,
        instance: &BlockInstance,
        frame: Frame,
        copied: Vec<DeclId>,
    ) {
        let block = instance.block.clone();
        let known = instance.frame.borrow().is_some();
        let mut bindings = frame.bindings.clone();
        let outer = self.enter(instance, frame);
        self.note_sites(&block);
        let result = self.result.take();
        self.locals(&block, known, &mut bindings);
        self.statements(&block.body);
        self.result = result;
        self.leave(instance, outer, bindings, copied);
    }

    /// Declares a block's variables and instances. Initial values are assigned at each use.
    pub(super) fn locals(
        &mut self,
        block: &hir::Block,
        known: bool,
        bindings: &mut HashMap<DeclId, Binding>,
    ) {
        for local in &block.locals {
            match local {
                Local::Variable(v) => {
                    if !known {
                        let store = self.local(&v.name, &v.ty);
                        bindings.insert(v.id, Binding::Loc(Loc::Store(store)));
                        self.vars.insert(v.id, bindings[&v.id].clone());
                    }
                    if let Some(Binding::Loc(Loc::Store(store))) = bindings.get(&v.id).cloned() {
                        self.initialise(&store, v);
                    }
                }
                Local::ValueSet(set) => {
                    if !known {
                        let binding = self.value_set(set);
                        bindings.insert(set.id, binding.clone());
                        self.vars.insert(set.id, binding);
                    }
                }
                Local::Instance(i) => {
                    if !known {
                        let binding = self.instance(i);
                        bindings.insert(i.id, binding.clone());
                        self.vars.insert(i.id, binding);
                    }
                    self.clear_checksum(i.id);
                }
            }
        }
    }

    /// Initialises a variable at the start of its lifetime.
    pub(super) fn initialise(&mut self, store: &Store, v: &hir::Variable) {
        match &v.init {
            Some(init) => {
                let value = self.value(init);
                self.assign(&Loc::Store(store.clone()), value, &v.ty);
            }
            None => self.invalidate(store),
        }
    }

    /// The action as run by a table: parameters with a direction are bound to `args`, the others to
    /// action data. Each action of an instance exists once; an action with bound arguments exists
    /// once per table.
    pub(super) fn action(&mut self, action: &Rc<hir::Action>, args: &[CallArg]) -> ActionId {
        let plain = args.is_empty();
        let known = if action.top_level {
            self.top_actions.get(&action.id)
        } else {
            self.actions.get(&action.id)
        };
        if let Some(&id) = known.filter(|_| plain) {
            self.info.exposed[id.index()] |= !self.in_action;
            return id;
        }
        let outer = if action.top_level { Some(std::mem::take(&mut self.prefix)) } else { None };
        let name = self.qualify(&action.name, &action.annotations);
        let mut params: Vec<FieldId> = Vec::new();
        let mut types = Vec::new();
        for param in action.params.iter().filter(|p| p.direction == Direction::None) {
            let field_name = format!("{name}.{}", param.name);
            let Some(ty) = scalar(&param.ty) else {
                // P4Info has no structs here, so p4c refuses them, too. It accepts `bit<0>`, with a
                // width of 0, for which P4Runtime has no value.
                let message = format!("{} cannot be action data", param.ty);
                let help = match param.ty.is_empty() {
                    true => "leave it out: it has no bits",
                    false => "give the action one parameter for each of its fields",
                };
                self.reporter.error_help(param.span, message, help);
                continue;
            };
            let field = self.field(field_name, ty, FieldRole::ActionParam);
            params.push(field);
            types.push((param.name.clone(), param.ty.clone(), param.annotations.clone()));
            self.vars.insert(param.id, Binding::Loc(Loc::Store(Store::Scalar(field))));
        }
        if let Some(prefix) = &outer {
            self.prefix.clone_from(prefix);
        }
        let directed: Vec<hir::Param> =
            action.params.iter().filter(|p| p.direction != Direction::None).cloned().collect();
        let result = self.result.take();
        let in_action = std::mem::replace(&mut self.in_action, true);
        let body = self.buffered(|l| {
            let bound = l.bind_action(action, &directed, args);
            l.vars.extend(bound.bindings);
            l.copy_outs.push(bound.copy_outs.clone());
            let inner = l.deeper(|l| l.buffered(|l| l.statements(&action.body)));
            l.copy_outs.pop();
            if bound.copy_outs.is_empty() {
                l.out.extend(inner);
            } else {
                l.splice(inner);
                for (to, from, ty) in bound.copy_outs {
                    l.assign(&to, super::Value::Loc(Loc::Store(from)), &ty);
                }
            }
        });
        self.result = result;
        self.in_action = in_action;
        let id = self.push_action(
            ir::Action { name, params, annotations: action.annotations.clone(), body },
            types,
        );
        if plain {
            let map = if action.top_level { &mut self.top_actions } else { &mut self.actions };
            map.insert(action.id, id);
        }
        id
    }

    pub(super) fn push_action(
        &mut self,
        action: ir::Action,
        types: Vec<(crate::types::Str, Type, Vec<ir::Annotation>)>,
    ) -> ActionId {
        let id = ActionId(self.program.actions.len() as u32);
        self.program.actions.push(action);
        self.info.action_params.push(types);
        self.info.exposed.push(!self.in_action);
        id
    }
}
