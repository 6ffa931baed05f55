//! BMv2's JSON.

use std::path::Path;

use serde_json::Value;
use tributary_p4runtime::p4::config::v1::P4Info;

use super::{Built, Shape, bundle_error, difference, files, named, tables_of};
use crate::error::Error;
use crate::p4c;
use crate::programs::{Pipeline, Source};

const COMPILER: &str = "p4c-bm2-ss";

/// Compiles a program with p4c.
///
/// # Errors
/// Those of [`p4c::bmv2`].
pub fn compile(source: &Source, defines: &[(String, String)]) -> Result<Built, Error> {
    let pipeline = p4c::bmv2(source, defines)?;
    Ok(Built { pipeline, origin: format!("{}, compiled by {COMPILER}", source.main) })
}

/// Loads JSON that was compiled before: a file, or a directory with one such file. Its P4Info is in
/// the same directory, unless it is named.
///
/// # Errors
/// [`Error::Bundle`] if the JSON is incomplete or the P4Info is of another program.
pub fn load(bundle: &Path, p4info: Option<&Path>) -> Result<Built, Error> {
    let (directory, file) = match bundle.is_dir() {
        false => (bundle.parent().unwrap_or(Path::new(".")), bundle.to_owned()),
        true => {
            let json = files::only(bundle, "BMv2's JSON", |name| name.ends_with(".json"))?;
            let missing = || {
                bundle_error(bundle, format!("has no JSON; compile the program with {COMPILER}"))
            };
            (bundle, json.ok_or_else(missing)?)
        }
    };
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let device_config = files::read(&file)?;
    let json: Value = serde_json::from_slice(&device_config).map_err(|error| {
        let fix = match error.is_eof() {
            true => "it is cut off; compile the program again",
            false => "it is not the JSON of p4c-bm2-ss",
        };
        bundle_error(&file, format!("{error}: {fix}"))
    })?;
    let (info_file, p4info) = files::p4info_of(directory, p4info)?;
    check(&json, &p4info).map_err(|what| {
        bundle_error(
            &file,
            format!(
                "it is not the program of {}: {what}; compile both at once",
                info_file.display()
            ),
        )
    })?;
    let program = json["program"].as_str().and_then(|path| Path::new(path).file_name());
    let program = program.map_or("a program".into(), |name| name.to_string_lossy());
    let origin = format!("{} ({program})", file.display());
    Ok(Built { pipeline: Pipeline { p4info, device_config }, origin })
}

/// Checks that JSON and P4Info describe one program; the error describes the difference.
fn check(json: &Value, info: &P4Info) -> Result<(), String> {
    let array = |name: &str| json[name].as_array().map_or(&[][..], Vec::as_slice);
    if array("pipelines").is_empty() || array("parsers").is_empty() {
        return Err("it has no pipelines; it is not the JSON of p4c-bm2-ss".into());
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let tables = array("pipelines").iter().flat_map(|pipeline| {
        pipeline["tables"].as_array().map_or(&[][..], Vec::as_slice).iter().map(|table| {
            let parts = |name: &str| table[name].as_array().map_or(&[][..], Vec::as_slice);
            let keys = parts("key").iter().map(|key| format!("key {}", text(&key["name"])));
            let actions = parts("actions").iter().map(|action| format!("action {}", text(action)));
            Shape::new(text(&table["name"]), keys.chain(actions))
        })
    });
    let arrays = |name: &str| -> Vec<Shape> {
        let one =
            |array: &Value| Shape::new(text(&array["name"]), [format!("size {}", array["size"])]);
        array(name).iter().map(one).collect()
    };
    let sized = |name: &str, size: i64| Shape::new(name, [format!("size {size}")]);
    let counters: Vec<Shape> = info
        .counters
        .iter()
        .map(|counter| sized(named(counter.preamble.as_ref()), counter.size))
        .collect();
    let registers: Vec<Shape> = info
        .registers
        .iter()
        .map(|register| sized(named(register.preamble.as_ref()), register.size.into()))
        .collect();
    let tables: Vec<Shape> = tables.collect();
    let found = difference("table", &tables_of(info), &tables)
        .or_else(|| difference("counter", &counters, &arrays("counter_arrays")))
        .or_else(|| difference("register", &registers, &arrays("register_arrays")))
        // A program with more values per packet also has everything that one with fewer has.
        .or_else(|| {
            let more = arrays("register_arrays");
            let more = more.iter().find(|one| registers.iter().all(|ours| ours.name != one.name));
            more.map(|register| format!("it has register `{}` besides", register.name))
        });
    found.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use tributary_p4runtime::text;

    use super::*;
    use crate::programs;

    fn info(program: &str, defines: &[(String, String)]) -> P4Info {
        let compiled = programs::compile(&Source::built_in(program).unwrap(), defines);
        compiled.unwrap_or_else(|error| panic!("{error}")).pipeline.p4info
    }

    /// JSON with the tables, counters and registers of a P4Info.
    fn json(info: &P4Info) -> Value {
        let tables = tables_of(info).into_iter().map(|shape| {
            let part = |prefix: &str| -> Vec<String> {
                let named = shape.parts.iter().filter_map(|part| part.strip_prefix(prefix));
                named.map(str::to_owned).collect()
            };
            let keys: Vec<Value> =
                part("key ").iter().map(|name| serde_json::json!({ "name": name })).collect();
            serde_json::json!({ "name": shape.name, "key": keys, "actions": part("action ") })
        });
        let array = |name: &str, size: i64| serde_json::json!({ "name": name, "size": size });
        let counters = info.counters.iter().map(|c| array(named(c.preamble.as_ref()), c.size));
        let registers =
            info.registers.iter().map(|r| array(named(r.preamble.as_ref()), r.size.into()));
        serde_json::json!({
            "program": "/some/where/atp.p4",
            "parsers": [{}],
            "pipelines": [{ "tables": tables.collect::<Vec<_>>() }],
            "counter_arrays": counters.collect::<Vec<_>>(),
            "register_arrays": registers.collect::<Vec<_>>(),
        })
    }

    /// Loads JSON with a P4Info in the same directory; errors omit the directory's name.
    fn loaded(json: &str, info: &P4Info) -> Result<Built, String> {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("atp.json"), json).unwrap();
        std::fs::write(directory.path().join("atp.p4info.txtpb"), text::to_text(info)).unwrap();
        let whole = load(directory.path(), None);
        let file = load(&directory.path().join("atp.json"), None);
        assert_eq!(whole.is_ok(), file.is_ok());
        whole.map_err(|error| {
            error.to_string().replace(&directory.path().display().to_string(), "DIR")
        })
    }

    #[test]
    fn json_of_the_program_is_taken() {
        let info = info("atp", &[]);
        let built = loaded(&json(&info).to_string(), &info).unwrap();
        assert!(built.origin.ends_with("atp.json (atp.p4)"), "{}", built.origin);
        assert_eq!(built.pipeline.p4info, info);
    }

    #[test]
    fn json_of_another_program_is_refused() {
        let atp = info("atp", &[]);
        let start = "DIR/atp.json: it is not the program of DIR/atp.p4info.txtpb: ";
        for (other, expected) in [
            (json(&info("switchml", &[])), "it has no table `"),
            (json(&info("esa", &[])), "it has no table `"),
            (json(&info("atp", &[("POOL".into(), "77".into())])), "there has no size 4096"),
            (json(&info("atp", &[("VALUES".into(), "32".into())])), "it has no "),
            (json(&info("atp", &[("VALUES".into(), "256".into())])), "it has register `"),
        ] {
            let error = loaded(&other.to_string(), &atp).unwrap_err();
            assert!(error.starts_with(start) && error.contains(expected), "{expected}: {error}");
        }
    }

    #[test]
    fn other_json_is_refused() {
        let info = info("atp", &[]);
        let whole = json(&info).to_string();
        let error = loaded(&whole[..whole.len() / 2], &info).unwrap_err();
        assert!(error.starts_with("DIR/atp.json: EOF while parsing"), "{error}");
        assert!(error.ends_with("it is cut off; compile the program again"), "{error}");
        let error = loaded("control ingress() {}", &info).unwrap_err();
        assert!(error.ends_with("it is not the JSON of p4c-bm2-ss"), "{error}");
        let error = loaded("{\"tables\": []}", &info).unwrap_err();
        assert!(error.contains("it has no pipelines"), "{error}");
        assert_eq!(
            loaded("", &info).unwrap_err(),
            "DIR/atp.json: is empty; compile the program again"
        );
    }
}
