//! Links that are down for a moment, at a host.

use std::time::Duration;

use tributary_run::testbed::{Process, Stream};

use crate::by_hand::{Net, ended, until};
use crate::command::namespaces;

/// Rounds with short pauses, so that outages fall into them.
fn job(protocol: &str, servers: &str) -> String {
    format!(
        "protocol = \"{protocol}\"\n[topology]\nkind = \"star\"\nworkers = 2\n{servers}\
         jitter = \"15ms\"\nworkload = {{ kind = \"random\", tensors = 300, elements = 1000 }}\n"
    )
}

/// Takes the link of each host down for a moment, while workers with `io` are at it.
fn check(io: &str, job: &str, hosts: &[&str]) {
    let net = Net::without_switch(job, hosts);
    // The ports that suit these hosts.
    let ports = if io == "udp" { "packet" } else { io };
    net.start_switch_at(&net.socket(), hosts.len(), &["--io", ports]);
    let _controller = net.controller();
    let more = ["--io", io];
    let _servers: Vec<Process> = hosts[2..]
        .iter()
        .rev()
        .map(|host| match *host {
            "ps2" => net.agent_with(host, &more),
            _ => net.server_with(host, &more),
        })
        .collect();
    let workers = [0, 1].map(|index| net.worker_with(index, &more));
    until(&workers[0], "round 5 of 300");
    for host in hosts {
        net.set_link(host, false);
        std::thread::sleep(Duration::from_millis(150));
        net.set_link(host, true);
        std::thread::sleep(Duration::from_millis(100));
    }
    let output = workers[0].output(Stream::Out);
    assert!(
        !output.contains("round 300 of 300"),
        "{io}: the links were down in the middle: {output}"
    );
    for worker in &workers {
        let (success, errors) = ended(worker);
        assert!(success, "{io}: {errors}");
        let output = worker.output(Stream::Out);
        assert!(output.contains("300000 values summed, 300000 of them compared"), "{output}");
    }
}

/// Those of workers, of the parameter server and of the reminder agent.
#[test]
fn a_link_that_is_down_for_a_moment_costs_time_only() {
    if namespaces() {
        let servers = "ps_hosts = 2\n[[job]]\nps = \"ps1\"\nagent = \"ps2\"\n";
        check("packet", &job("esa", servers), &["w1", "w2", "ps1", "ps2"]);
    }
}
