//! Passes of observed packets.

use tributary_p4::ir::FieldId;

use super::{Passes, Pipeline};
use crate::code::{ExternOp, Op};
use crate::effects::reachable;
use crate::error::LoadError;
use crate::load;
use crate::packet::Packet;
use crate::pass::{Egress, EgressInput, Ingress, IngressInput};
use crate::trace::{Observed, Observer};
use crate::value::Value;

impl Pipeline {
    /// Compiles the program for observed packets, unless that is done. This takes as long as
    /// [`Self::load`]; otherwise the first observed packet does it.
    ///
    /// # Errors
    /// None for a program that was loaded.
    pub fn prepare_observation(&mut self) -> Result<(), LoadError> {
        if self.traced.is_none() {
            let code = &self.engine.code;
            let traced = load::observed(&self.program, code, &self.instances)?;
            self.traced = Some(Box::new(traced));
        }
        Ok(())
    }

    /// The parts of an observed pass, of a packet that starts with the given state.
    fn observed<'p>(
        &'p mut self,
        state: &[u64],
        observer: &'p mut dyn Observer,
    ) -> (&'p mut Passes, Observed<'p>) {
        self.prepare_observation().expect("the program was loaded before");
        let Self { program, engine, passes, traced, .. } = self;
        let traced = traced.as_deref().expect("was just made");
        (passes, Observed::new(engine, program, traced, observer, state))
    }

    /// Runs only the parser of ingress on a frame: for [`Self::field`]. The packet is not one that
    /// other passes may follow.
    pub fn parse(&mut self, packet: &mut Packet, frame: &[u8], input: &IngressInput) {
        packet.clear();
        match &mut self.passes {
            Passes::V1model(passes) => passes.parse(&mut self.engine, packet, frame, input),
            Passes::Tna(passes) => passes.parse(&mut self.engine, packet, frame, input),
            Passes::Psa(passes) => passes.parse(&mut self.engine, packet, frame, input),
        }
    }

    /// Whether the parser of ingress changes nothing but the packet, so that [`Self::parse`] leaves
    /// no trace.
    #[must_use]
    pub fn parses_without_effects(&self) -> bool {
        let entry = match &self.passes {
            Passes::V1model(passes) => passes.entries.parser,
            Passes::Tna(passes) => passes.entries.ingress_parser,
            Passes::Psa(passes) => passes.entries.ingress_parser,
        };
        let code = &self.engine.code;
        reachable(code, entry).into_iter().all(|pc| match code.ops[pc as usize] {
            Op::RegisterWrite { .. } | Op::RegisterRun(_) | Op::Count { .. } | Op::Apply { .. } => {
                false
            }
            Op::Extern(number) => matches!(
                code.externs[number as usize],
                ExternOp::Contains { .. }
                    | ExternOp::ChecksumAdd { .. }
                    | ExternOp::ChecksumGet { .. }
                    | ExternOp::ChecksumRest { .. }
                    | ExternOp::Consumed { .. }
                    | ExternOp::DigestAdd { .. }
                    | ExternOp::Hash { .. }
                    | ExternOp::Digest { .. }
            ),
            _ => true,
        })
    }

    /// A field of a packet, after [`Self::prepare_observation`]; `None` without.
    #[must_use]
    pub fn field(&self, packet: &Packet, field: FieldId) -> Option<Value> {
        let item = *self.traced.as_ref()?.fields.get(field.index())?;
        let first = item.slot as usize;
        let words = packet.state.get(first..first + item.width.div_ceil(64) as usize)?;
        Some(Value::from_limbs(words))
    }

    /// [`Self::ingress`], with all steps reported to an observer. The interpreter runs it.
    pub fn ingress_observed(
        &mut self,
        packet: &mut Packet,
        frame: &[u8],
        input: &IngressInput,
        observer: &mut dyn Observer,
    ) -> Ingress {
        packet.clear();
        let (passes, mut engine) = self.observed(&packet.state, observer);
        match passes {
            Passes::V1model(passes) => passes.ingress(&mut engine, packet, frame, input),
            Passes::Tna(passes) => passes.ingress(&mut engine, packet, frame, input),
            Passes::Psa(passes) => passes.ingress(&mut engine, packet, frame, input),
        }
    }

    /// [`Self::egress`], with all steps reported to an observer. The interpreter runs it.
    pub fn egress_observed(
        &mut self,
        packet: &mut Packet,
        input: &EgressInput,
        frame: &mut Vec<u8>,
        observer: &mut dyn Observer,
    ) -> Egress {
        if !matches!(self.passes, Passes::V1model(_)) {
            packet.clear();
        }
        let (passes, mut engine) = self.observed(&packet.state, observer);
        match passes {
            Passes::V1model(passes) => passes.egress(&mut engine, packet, input, frame),
            Passes::Tna(passes) => passes.egress(&mut engine, packet, input, frame),
            Passes::Psa(passes) => passes.egress(&mut engine, packet, input, frame),
        }
    }

    /// [`Self::clone_of_ingress`], with the steps of the parser reported to an observer.
    pub fn clone_of_ingress_observed(
        &mut self,
        copy: &mut Packet,
        original: &Packet,
        frame: &[u8],
        input: &IngressInput,
        observer: &mut dyn Observer,
    ) {
        copy.clear();
        let (passes, mut engine) = self.observed(&copy.state, observer);
        match passes {
            Passes::V1model(passes) => {
                passes.clone_of_ingress(&mut engine, copy, original, frame, input.port);
            }
            Passes::Psa(passes) => passes.clone_of_ingress(copy, original, frame),
            Passes::Tna(_) => {}
        }
    }
}
