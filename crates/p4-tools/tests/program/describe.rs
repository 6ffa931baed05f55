//! `tributary-p4 info` and `graph`.

use std::path::Path;

use prost::Message;
use tributary_p4runtime::p4::config::v1::P4Info;
use tributary_p4runtime::text::from_text;

use crate::command::{fail, root, succeed};

const ATP: &str = "p4src/v1model/atp.p4";

#[test]
fn p4info_is_written_as_text_and_encoded() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let printed = succeed(&["info", ATP]);
    let expected: P4Info = from_text(&printed).unwrap();
    assert!(expected.tables.len() > 3);
    succeed(&["info", ATP, "--out", &path("atp.txtpb")]);
    assert_eq!(std::fs::read_to_string(path("atp.txtpb")).unwrap(), printed);
    succeed(&["info", ATP, "--binary", "--out", &path("atp.binpb")]);
    let encoded = std::fs::read(path("atp.binpb")).unwrap();
    assert_eq!(P4Info::decode(encoded.as_slice()).unwrap(), expected);
    let line = fail(&["info", ATP, "--out", &path("no/such")]);
    assert!(line.contains("cannot write") && line.contains("No such file"), "{line}");
}

#[test]
fn graphs_are_drawn() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("graphs").display().to_string();
    for (options, beginning, end) in
        [(&[][..], "<svg ", "</svg>\n"), (&["--dot"][..], "digraph \"", "}\n")]
    {
        let files = succeed(&[&["graph", ATP, "--out", &out][..], options].concat());
        assert!(files.lines().count() >= 5, "{files}");
        for file in files.lines() {
            let text = std::fs::read_to_string(file).unwrap();
            assert!(text.starts_with(beginning) && text.ends_with(end), "{file}: {text}");
        }
        let ingress = files.lines().find(|file| file.contains("AtpIngress")).unwrap();
        let text = std::fs::read_to_string(ingress).unwrap();
        assert!(text.contains("AtpIngress.identity.access"), "{text}");
    }
}

/// The pictures on the pages of the four programs are current.
#[test]
fn the_pictures_in_the_documentation_are_current() {
    let directory = tempfile::tempdir().unwrap();
    let images = root().join("docs/images/graphs");
    for protocol in ["atp", "esa", "p4inc", "switchml"] {
        let program = format!("p4src/v1model/{protocol}.p4");
        let out = directory.path().join(protocol).display().to_string();
        for file in succeed(&["graph", &program, "--out", &out]).lines() {
            let path = images.join(protocol).join(Path::new(file).file_name().unwrap());
            let kept = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(
                kept == std::fs::read_to_string(file).unwrap(),
                "{} is old: tributary-p4 graph {program} --out docs/images/graphs/{protocol}",
                path.display()
            );
        }
    }
}
