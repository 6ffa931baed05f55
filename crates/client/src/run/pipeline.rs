//! The program of the switch.

use std::path::Path;

use serde_json::json;
use tributary_base::FileLimit;
use tributary_controller::programs::{self, Pipeline, Source};
use tributary_p4runtime::p4::config::v1::P4Info;
use tributary_p4runtime::text;

use super::usage;
use crate::{Error, Report, Session};

/// The largest file of a pipeline.
const FILE: FileLimit = FileLimit::new("file of a pipeline", 256 << 20);

/// `info`.
pub(super) fn info(session: &Session) -> Result<Report, Error> {
    let text = text::to_text(session.names().info());
    Ok(Report::new(json!({ "p4info": text })).line(text))
}

/// `pipeline`.
pub(super) async fn run(session: &mut Session, words: &[String]) -> Result<Report, Error> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        [] => show(session).await,
        ["get"] => get(session, None).await,
        ["get", file] => get(session, Some(Path::new(file))).await,
        ["set", file, ref rest @ ..] => set(session, Path::new(file), rest).await,
        _ => Err(usage("pipeline")),
    }
}

const NO_PROGRAM: &str = "the switch runs no program; set one with `pipeline set PROGRAM.p4`";

async fn show(session: &Session) -> Result<Report, Error> {
    let Some(running) = session.client().running().await? else {
        return Ok(Report::new(json!({ "program": null })).line(NO_PROGRAM));
    };
    let info = running.p4info.unwrap_or_default();
    let package = info.pkg_info.clone().unwrap_or_default();
    let counts = [
        ("tables", info.tables.len()),
        ("actions", info.actions.len()),
        ("counters", info.counters.len() + info.direct_counters.len()),
        ("meters", info.meters.len() + info.direct_meters.len()),
        ("registers", info.registers.len()),
    ];
    let named = [("program", &package.name), ("architecture", &package.arch)];
    let named = named.iter().filter(|(_, text)| !text.is_empty());
    let mut lines: Vec<String> = named.map(|(what, text)| format!("{what:<13}{text}")).collect();
    lines.push(format!("{:<13}{:#x}", "cookie", running.cookie));
    lines.extend(counts.iter().map(|(what, count)| format!("{what:<13}{count}")));
    let mut json = json!({
        "program": package.name, "architecture": package.arch,
        "cookie": format!("{:#x}", running.cookie),
    });
    for (what, count) in counts {
        json[what] = count.into();
    }
    Ok(Report::new(json).line(lines.join("\n")))
}

async fn get(session: &Session, file: Option<&Path>) -> Result<Report, Error> {
    let config = session.client().pipeline().await?.ok_or_else(|| Error::input(NO_PROGRAM))?;
    let bytes = config.p4_device_config;
    let Some(path) = file else {
        let text = String::from_utf8(bytes).map_err(|_| {
            Error::input("the device configuration is not text; write `pipeline get FILE`")
        })?;
        return Ok(Report::new(json!({ "device_config": text })).line(text));
    };
    tributary_base::write_whole(path, &bytes).map_err(|error| Error::File {
        verb: "write",
        path: path.display().to_string(),
        reason: error.to_string(),
    })?;
    let said = format!("wrote {} bytes to {}", bytes.len(), path.display());
    Ok(Report::new(json!({ "bytes": bytes.len() })).line(said))
}

async fn set(session: &mut Session, file: &Path, rest: &[&str]) -> Result<Report, Error> {
    let pipeline = match rest {
        [info] if !info.contains('=') => given(file, Path::new(info))?,
        defines if defines.iter().all(|define| define.contains('=')) => compiled(file, defines)?,
        _ => return Err(usage("pipeline")),
    };
    session.become_primary().await?;
    session.client().set_pipeline(&pipeline).await?;
    session.refresh().await?;
    let (bytes, tables) = (pipeline.device_config.len(), pipeline.p4info.tables.len());
    let tables = tributary_base::counted(tables, "table");
    let said = format!("set: {}, {bytes} bytes, {tables}", file.display());
    Ok(Report::new(json!({ "bytes": bytes })).line(said))
}

/// A pipeline that another compiler has made.
fn given(config: &Path, info: &Path) -> Result<Pipeline, Error> {
    let failed = |path: &Path, reason: String| Error::File {
        verb: "read",
        path: path.display().to_string(),
        reason,
    };
    let device_config = FILE.read(config).map_err(|error| failed(config, error.to_string()))?;
    let text = FILE.read_text(info).map_err(|error| failed(info, error.to_string()))?;
    let p4info =
        text::from_text::<P4Info>(&text).map_err(|error| failed(info, error.to_string()))?;
    Ok(Pipeline { p4info, device_config })
}

/// A P4 program for the embedded switch.
fn compiled(file: &Path, defines: &[&str]) -> Result<Pipeline, Error> {
    if file.extension().is_some_and(|extension| extension == "json") {
        return Err(Error::input(format!(
            "{}: a compiled program needs its P4Info; write `pipeline set {0} P4INFO`",
            file.display()
        )));
    }
    let defines: Vec<String> = defines.iter().map(ToString::to_string).collect();
    let defines = tributary_p4::defines(&defines).map_err(Error::Input)?;
    match programs::compile(&Source::file(file)?, &defines) {
        Ok(compiled) => Ok(compiled.pipeline),
        Err(tributary_controller::Error::Compile(diagnostics)) => {
            Err(Error::Program { path: file.display().to_string(), diagnostics })
        }
        Err(error) => Err(error.into()),
    }
}
