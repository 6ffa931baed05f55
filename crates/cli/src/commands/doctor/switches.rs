//! Switches, over P4Runtime: whether they answer, their primary controller, and their program. The
//! checks change nothing in them and replace no controller.

use std::sync::Arc;
use std::time::Duration;

use tributary_controller::client::{Client, Mastership, Running, SwitchConfig, Target};
use tributary_controller::programs::Pipeline;
use tributary_controller::{Catalogue, Error};
use tributary_model::Protocol;

use super::check::{Area, Check};

/// Time limit for a switch to answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// The facts.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// `NAME=ADDR` or `ADDR`, as given.
    pub(super) address: String,
    /// Its program, or why it is unknown.
    pub(super) running: Result<Option<Running>, Error>,
    /// Its primary controller, or why it is unknown.
    pub(super) mastership: Result<Mastership, Error>,
}

/// The expected program of the job's switches.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) protocol: Protocol,
    pub(super) pipeline: Pipeline,
}

/// Queries a switch.
pub(super) async fn gather(address: &str, device_id: u64) -> Facts {
    let (name, place) = address.split_once('=').unwrap_or(("", address));
    let config = SwitchConfig {
        device_id,
        request_timeout: PATIENCE,
        ..SwitchConfig::new(
            if name.is_empty() { place } else { name },
            Target::Address(place.into()),
        )
    };
    let address = address.to_owned();
    match Client::connect(Arc::new(config)).await {
        Ok(client) => Facts {
            address,
            mastership: client.mastership().await,
            running: client.running().await,
        },
        Err(error) => Facts { address, running: Err(error.clone()), mastership: Err(error) },
    }
}

/// Judges the facts.
pub(super) fn judge(facts: &Facts, wanted: Option<&Wanted>) -> Vec<Check> {
    let mut area = Area::new(format!("switch {}", facts.address));
    match (&facts.mastership, &facts.running) {
        (Err(Error::Unreachable { reason, .. }), _) => {
            area.fail(
                "P4Runtime",
                format!("nobody answers ({reason})"),
                "start the switch, or correct the address; see firewalls on the way",
            );
            return area.into_checks();
        }
        (Err(Error::Address { .. }), _) => {
            area.fail("P4Runtime", "is not an address", "write HOST:PORT or unix:PATH");
            return area.into_checks();
        }
        (Err(Error::Device { device, reason, .. }), _) => {
            area.fail(
                "P4Runtime",
                format!("it has no device {device} ({reason})"),
                "name the right one with --device-id; with Stratum it is the node's id in the chassis \
                 configuration",
            );
            return area.into_checks();
        }
        (Err(error @ Error::Lost { .. }), Err(_)) => {
            area.fail(
                "P4Runtime",
                format!("it takes connections and does not answer ({error})"),
                "see whether the address is a P4Runtime server's; restart the switch",
            );
            return area.into_checks();
        }
        _ => area.ok("P4Runtime", "answers"),
    }
    match &facts.mastership {
        Ok(Mastership::Held(id)) => area.note_with(
            "controller",
            format!("one is connected, with election ID {id}"),
            format!(
                "right if it is the job's; else stop it, or start ours with --election-id {}",
                id.saturating_add(1)
            ),
        ),
        Ok(Mastership::Vacant) => area.ok("controller", "none is connected"),
        Err(error) => area.note("controller", format!("not told ({error})")),
    }
    program(&mut area, facts, wanted);
    area.into_checks()
}

fn program(area: &mut Area, facts: &Facts, wanted: Option<&Wanted>) {
    const PUSH: &str = "`tributary controller`, or `tributary controller push`, installs it";
    let running = match &facts.running {
        Ok(Some(running)) => running,
        Ok(None) => {
            match wanted {
                Some(_) => area.note_with("program", "none yet", PUSH),
                None => area.note("program", "none"),
            }
            return;
        }
        Err(error) => {
            area.note("program", format!("not told ({error})"));
            return;
        }
    };
    let catalogue = running.p4info.as_ref().map(Catalogue::new);
    let ours = match &catalogue {
        Some(Ok(catalogue)) => format!("speaks {}", catalogue.protocol().name()),
        Some(Err(_)) => "is none of Tributary's".into(),
        None => "is unknown".into(),
    };
    let said = format!("what runs {ours} (cookie {:#x})", running.cookie);
    let Some(wanted) = wanted else {
        area.note("program", said);
        return;
    };
    let own = Catalogue::new(&wanted.pipeline.p4info);
    if own.is_ok_and(|own| running.is(&wanted.pipeline, &own)) {
        area.ok("program", format!("the job's: {said}"));
        return;
    }
    let same = |catalogue: &Catalogue| catalogue.protocol().name() == wanted.protocol.name();
    let cookie = wanted.pipeline.cookie();
    match catalogue {
        Some(Ok(catalogue)) if same(&catalogue) => area.warn(
            "program",
            format!("{said}, with other settings than the job's ({cookie:#x})"),
            format!("{PUSH}; what the switch holds is lost then"),
        ),
        _ => area.warn(
            "program",
            format!("{said}, and the job wants {}", wanted.protocol.name()),
            format!("{PUSH}; what the switch holds is lost then"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use tributary_controller::programs::{Source, compile};

    use super::super::check::Verdict;
    use super::super::check::tests::named;
    use super::*;

    fn pipeline(program: &str, pool: &str) -> Pipeline {
        let pool = [("POOL".to_owned(), pool.to_owned())];
        let compiled = compile(&Source::built_in(program).unwrap(), &pool);
        compiled.unwrap_or_else(|error| panic!("{error}")).pipeline
    }

    fn facts(running: Option<&Pipeline>) -> Facts {
        let running = running.map(|pipeline| Running {
            cookie: pipeline.cookie(),
            p4info: Some(pipeline.p4info.clone()),
        });
        Facts { address: "s1=h:1".into(), running: Ok(running), mastership: Ok(Mastership::Vacant) }
    }

    fn failing(error: Error) -> Vec<Check> {
        let facts = Facts { running: Err(error.clone()), mastership: Err(error), ..facts(None) };
        judge(&facts, None)
    }

    #[test]
    fn the_program_is_compared_with_the_jobs() {
        let (atp, smaller, esa) =
            (pipeline("atp", "64"), pipeline("atp", "32"), pipeline("esa", "64"));
        let wanted = Wanted { protocol: Protocol::Atp, pipeline: atp.clone() };
        let program = |running, wanted| named(&judge(&facts(running), wanted), "program").clone();
        assert_eq!(program(Some(&atp), Some(&wanted)).verdict, Verdict::Ok);
        let other = program(Some(&smaller), Some(&wanted));
        assert_eq!(other.verdict, Verdict::Warn);
        assert!(other.found.contains("speaks atp") && other.found.contains("other settings"));
        let other = program(Some(&esa), Some(&wanted));
        assert_eq!(other.verdict, Verdict::Warn);
        assert!(other.found.contains("speaks esa") && other.found.ends_with("the job wants atp"));
        assert_eq!(program(None, Some(&wanted)).found, "none yet");
        assert_eq!(program(Some(&atp), None).verdict, Verdict::Note);
        // Our cookie, but another program's P4Info.
        let mut forged = facts(Some(&esa));
        forged.running.as_mut().unwrap().as_mut().unwrap().cookie = atp.cookie();
        assert_eq!(named(&judge(&forged, Some(&wanted)), "program").verdict, Verdict::Warn);
    }

    #[test]
    fn the_primary_controller_is_reported() {
        let mut held = facts(None);
        held.mastership = Ok(Mastership::Held(7));
        let checks = judge(&held, None);
        let check = named(&checks, "controller");
        assert_eq!(check.found, "one is connected, with election ID 7");
        assert!(check.fix.as_ref().unwrap().ends_with("--election-id 8"));
        let checks = judge(&facts(None), None);
        assert_eq!(named(&checks, "controller").verdict, Verdict::Ok);
    }

    #[test]
    fn unreachable_switches_fail_with_one_check() {
        let (switch, reason) = ("s1".to_owned(), "refused".to_owned());
        for (error, says) in [
            (
                Error::Unreachable {
                    switch: switch.clone(),
                    address: "h:1".into(),
                    reason: reason.clone(),
                },
                "nobody answers (refused)",
            ),
            (Error::Address { switch: switch.clone(), address: "h".into() }, "is not an address"),
            (
                Error::Device { switch: switch.clone(), device: 9, reason: reason.clone() },
                "it has no device 9 (refused)",
            ),
            (Error::Lost { switch, reason }, "it takes connections and does not answer"),
        ] {
            let checks = failing(error);
            assert_eq!(checks.len(), 1, "{checks:?}");
            let check = named(&checks, "P4Runtime");
            assert_eq!(check.verdict, Verdict::Fail);
            assert!(check.found.starts_with(says), "{check:?}");
        }
    }
}
