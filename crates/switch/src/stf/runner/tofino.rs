//! What the driver of a Tofino configures, and messages to the controller.

use tributary_dataplane::{FilterConfig, Owner};

use super::Run;
use crate::stf::error::{Failure, Place};
use crate::stf::number::Number;
use crate::stf::script::{At, DriverCommand, Filter, Name};

impl Run<'_> {
    pub(super) fn driver(&mut self, place: Place, command: &DriverCommand) -> Result<(), Failure> {
        match command {
            DriverCommand::PortMetadata { port, metadata } => {
                self.switch.set_port_metadata(*port, *metadata);
            }
            DriverCommand::Exclusion { id, ports } => {
                let forwarding = self.switch.forwarding_mut();
                let forwarding = forwarding.expect("a program was committed before the script ran");
                forwarding.set_exclusion(*id, ports.iter().copied());
            }
            DriverCommand::Loopback { ports } => {
                let mut all = ports.iter().map(|&port| self.switch.set_loopback(port));
                return all.find(Result::is_err).unwrap_or(Ok(())).map_err(|e| place.failure(e));
            }
            DriverCommand::Deflection { port } => self.switch.set_deflection(*port),
            DriverCommand::Link { port, up } => {
                self.outputs.next_packet();
                self.switch.set_link(*port, *up);
                return self.elapse(place, self.now_us);
            }
            DriverCommand::Generate(application) => {
                let added = self.switch.add_application(application.clone());
                return added.map_err(|reason| place.failure(reason));
            }
        }
        Ok(())
    }

    /// Compares the next digest that no command has expected yet.
    pub(super) fn expect_digest(
        &mut self,
        digest: &Name,
        values: &[Number],
    ) -> Result<(), Failure> {
        let fail = |reason: String| digest.place.failure(reason);
        let Some(got) = self.digests.pop_front() else {
            return Err(fail("expected a digest, but there is none".to_owned()));
        };
        let name = self.pipeline().digests().nth(got.digest).unwrap_or_default();
        let ends = name == digest.text || name.ends_with(&format!(".{}", digest.text));
        if !ends {
            return Err(fail(format!("expected the digest `{}`, got `{name}`", digest.text)));
        }
        let wanted: Vec<_> = values.iter().map(Number::zero_filled).collect();
        if got.data != wanted {
            let show = |list: &[tributary_dataplane::Value]| {
                list.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
            };
            return Err(fail(format!(
                "digest `{name}`: expected {}, got {}",
                show(&wanted),
                show(&got.data)
            )));
        }
        Ok(())
    }

    pub(super) fn filter(&mut self, filter: &Name, at: &At, config: Filter) -> Result<(), Failure> {
        let failed = |error: tributary_dataplane::StateError| filter.place.failure(error);
        let types = ["Lpf", "DirectLpf", "Wred", "DirectWred"];
        let id = self.extern_id("filter", &types, filter)?;
        let config = Some(match config {
            Filter::Average { gain_ns, decay_ns, scale_down } => {
                FilterConfig::Average { gain_ns, decay_ns, scale_down }
            }
            Filter::Rate { decay_ns, scale_down } => FilterConfig::Rate { decay_ns, scale_down },
            Filter::Drop { time_constant_ns, min, max, percent } => FilterConfig::Drop {
                time_constant_ns,
                min,
                max,
                max_probability: f64::from(percent) / 100.0,
            },
        });
        // A filter begins now, not with the last packet.
        let now_us = self.now_us;
        self.pipeline_mut().set_time(now_us);
        match (self.table_with(id).filter(|_| self.pipeline().array_size(id).is_none()), at) {
            (None, At::Index(index)) => {
                self.pipeline_mut().set_filter_config(id, *index, config).map_err(failed)
            }
            (None, At::Entry(label)) => {
                let reason = format!("the filter is an array, `{label}` is not an index of it");
                Err(filter.place.failure(reason))
            }
            (Some(table), at) => {
                let entry = self.entry_at(filter, id, at)?.1;
                let owner = Owner::Entry(&entry.matches, entry.priority);
                self.pipeline_mut().set_direct_filter_config(table, owner, config).map_err(failed)
            }
        }
    }
}
