//! Deployments of job files.

use tributary_model::{Aggregation, Deployment};
use tributary_protocol::{Assignment, Mode};
use tributary_wire::{AggregatorIndex, Segment, Service};

fn deployment(text: &str) -> Deployment {
    let scenario = tributary_model::jobfile::parse(text, "test");
    Deployment::new(scenario.unwrap_or_else(|error| panic!("{error}"))).unwrap()
}

fn assigned(offset: u32, size: u32, mode: Mode) -> Assignment {
    let segment = Segment { offset: AggregatorIndex(offset), size };
    Assignment { service: Service::new(1), segment, mode }
}

#[test]
fn jobs_of_a_file_get_their_segments_in_order() {
    let jobs = "[topology]\nracks = 2\n[[job]]\nsegment = 32\nwindow = 8\nslots = 8\n\
                [[job]]\naggregation = \"server\"\n\
                [[job]]\nworkers = [\"w1\", \"w2\"]\nsegment = 16\nwindow = 8\nslots = 8\n";
    let text = format!("protocol = \"p4inc\"\n[switch]\npool = 64\n{jobs}");
    let mut p4inc = deployment(&text);
    assert_eq!(p4inc.assignment(0), assigned(0, 32, Mode::Partial));
    assert_eq!(p4inc.assignment(1), Assignment::NONE);
    assert_eq!(p4inc.assignment(2), assigned(32, 16, Mode::Local));
    assert_eq!(p4inc.placement(2).assignment, p4inc.assignment(2));

    // A job that is assigned again gets another service.
    p4inc.release(0);
    assert_eq!(p4inc.assignment(0), Assignment::NONE);
    let again = p4inc.assign(0, Aggregation::Network).unwrap();
    assert_eq!(again.service, Service::new(2));
    assert_eq!(again.segment, assigned(0, 32, Mode::Partial).segment);

    let jobs = "[[job]]\nslots = 4\nwindow = 4\n[[job]]\nslots = 4\nwindow = 4\n";
    let pool = "[switch]\npool = 100\npartitions = 8\n";
    let switchml = deployment(&format!("protocol = \"switchml\"\n{pool}{jobs}"));
    assert_eq!(switchml.assignment(1), assigned(12, 12, Mode::Local));

    let atp = deployment("[[job]]\n[[job]]\n");
    assert!(!atp.has_segments());
    assert_eq!([0, 1].map(|job| atp.assignment(job)), [Assignment::NONE; 2]);
}
