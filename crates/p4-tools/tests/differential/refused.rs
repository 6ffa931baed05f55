//! Programs that BMv2 accepts and the embedded switch does not: the error names the missing feature
//! and, if possible, the line.

use tributary_controller::p4c;
use tributary_controller::programs::Source;
use tributary_p4::Sources;
use tributary_switch::Forwarding;

use crate::programs::DIRECTORY;

/// Names of programs, and required parts of the error.
pub(crate) const ALL: [(&str, &[&str]); 1] = [("wide_hash", &["hash", "too wide"])];

pub(crate) fn check(name: &str, says: &[&str]) -> Result<(), String> {
    let path = format!("{DIRECTORY}/refused/{name}.p4");
    let refusal = match tributary_p4::preprocess(&Sources::disk(), &path, &[]) {
        Err(errors) => errors.render(false),
        Ok(text) => match Forwarding::from_source(&text) {
            Ok(_) => return Err(format!("{name} is taken; move it among the programs to compare")),
            Err(refusal) => refusal.to_string(),
        },
    };
    if let Some(missing) = says.iter().find(|says| !refusal.contains(**says)) {
        return Err(format!("the refusal does not say `{missing}`:\n{refusal}"));
    }
    if crate::with_bmv2() {
        // Otherwise the program is merely invalid.
        let source = Source { main: path, files: Vec::new() };
        p4c::bmv2(&source, &[]).map_err(|error| format!("p4c refuses it too: {error}"))?;
    }
    Ok(())
}
