//! Reads job files for their switches.

use std::path::Path;

use tributary_controller::targets::Kind;
use tributary_jobfile::Error;
use tributary_model::Scenario;
use tributary_p4::Architecture;

/// Most values per packet with the programs for TNA: one Tofino pipe has no stateful ALUs for more.
const TNA_VALUES: u16 = 32;

/// Reads a job file for switches of this kind, with programs for this architecture. All processes
/// of a job file must agree on both.
///
/// # Errors
/// One line with file, line and column.
pub fn load(
    path: &Path,
    seed: Option<u64>,
    switches: Kind,
    architecture: Architecture,
) -> Result<Scenario, Error> {
    let mut scenario = tributary_jobfile::load_with_seed(path, seed)?;
    if switches == Kind::Bmv2 {
        scenario.pace_for_bmv2();
    }
    if architecture == Architecture::Tna {
        let values = &mut scenario.network.switch.values_per_packet;
        *values = TNA_VALUES.min(*values);
    }
    Ok(scenario)
}
