//! `tributary-p4 info` and `graph`.

use prost::Message;
use tributary_p4runtime::p4::config::v1::P4Info;
use tributary_p4runtime::text::from_text;

use crate::command::{fail, succeed};

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
fn each_block_has_a_graph() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("graphs").display().to_string();
    let files = succeed(&["graph", ATP, "--out", &out]);
    assert!(files.lines().count() >= 5, "{files}");
    for file in files.lines() {
        let text = std::fs::read_to_string(file).unwrap();
        assert!(text.starts_with("digraph \"") && text.ends_with("}\n"), "{file}: {text}");
    }
    let ingress = files.lines().find(|file| file.contains("AtpIngress")).unwrap();
    let text = std::fs::read_to_string(ingress).unwrap();
    assert!(text.contains("AtpIngress.identity.access"), "{text}");
}
