//! Jobs with aggregators of their own, as processes that share only their controller.

use tributary_run::testbed::Stream;

use crate::by_hand::{Net, ended, freed};
use crate::command::namespaces;

/// Two jobs; the second one's segment follows the first one's.
fn file(protocol: &str) -> String {
    let job = |name: &str, workers: &str| {
        format!(
            "[[job]]\nname = \"{name}\"\nworkers = {workers}\nslots = 32\n\
             workload = {{ kind = \"random\", tensors = 10, elements = 5000 }}\n"
        )
    };
    format!(
        "protocol = \"{protocol}\"\n[topology]\nkind = \"star\"\nworkers = 4\n[switch]\npool = 512\n\
         [faults]\nloss = 0.01\n{}{}",
        job("first", "[\"w1\", \"w2\"]"),
        job("second", "[\"w3\", \"w4\"]")
    )
}

#[test]
fn processes_started_by_hand_agree_on_segments() {
    if !namespaces() {
        return;
    }
    for protocol in ["p4inc", "switchml"] {
        let hosts = ["w1", "w2", "w3", "w4"];
        let net = Net::with(&file(protocol), &hosts);
        let controller = net.controller();
        let workers = hosts.iter().enumerate().map(|(at, host)| {
            net.endpoint(host, &["worker", "--job", ["first", "second"][at / 2]])
        });
        for worker in workers.collect::<Vec<_>>() {
            let (success, errors) = ended(&worker);
            assert!(success, "{protocol}: {errors}");
            let output = worker.output(Stream::Out);
            assert!(output.contains("50000 values summed, 50000 of them compared"), "{output}");
        }
        assert_eq!(freed(&controller), 0, "all fragments were finished");
    }
}
