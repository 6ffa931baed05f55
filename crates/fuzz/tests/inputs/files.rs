//! Files: job files and other TOML, tensors, traces.

use std::path::Path;

use tributary_cluster::trace::{Format as TraceFormat, Trace};
use tributary_cluster::{Cluster, Shape, occupied};
use tributary_manager::site::Site;
use tributary_worker::tensors::{Format as TensorFormat, TensorFile};

use crate::bounds::{MIB, Turn};
use crate::reader::Reader;

/// A file for each kind: job file, cluster, site with the network of a small one, GPUs that are taken.
#[test]
fn toml() {
    let turn = Turn::wait();
    bolero::check!().for_each(|input: &[u8]| {
        let mut input = Reader::new(input);
        let kind = input.index(4);
        let Ok(text) = std::str::from_utf8(input.rest()) else { return };
        turn.bounded(64 * MIB, || match kind {
            0 => check(tributary_model::jobfile::parse(text, "job.toml")),
            1 => check(tributary_cluster::file::parse(text, "cluster.toml")),
            3 => {
                check(occupied::parse(text, "occupied.toml", &Cluster::uniform(&Shape::default())))
            }
            _ => check(Site::parse(text, NETWORK)),
        });
    });
}

const NETWORK: &str = "[topology]\nracks = 2\nhosts_per_rack = 2\n";

/// An error must be readable: no more than the start of what it quotes.
fn check<T, E: std::fmt::Display>(read: Result<T, E>) {
    if let Err(error) = read {
        let text = error.to_string();
        assert!(
            text.len() < 10_000,
            "an error of {} bytes: {}",
            text.len(),
            &text[..text.floor_char_boundary(500)]
        );
    }
}

#[test]
fn tensors() {
    let turn = Turn::wait();
    bolero::check!().for_each(|input: &[u8]| {
        let mut input = Reader::new(input);
        let format = [TensorFormat::Npy, TensorFormat::SafeTensors][input.index(2)];
        let bytes = input.rest();
        turn.bounded(4 * MIB + 100 * bytes.len(), || {
            let path = Path::new("tensors");
            match TensorFile::decode(path, format, bytes) {
                Ok(file) => {
                    let again = file.encode().expect("what was read can be written");
                    let again = TensorFile::decode(path, format, &again).expect("and read again");
                    assert_eq!(again.tensors.len(), file.tensors.len());
                    for (a, b) in again.tensors.iter().zip(&file.tensors) {
                        assert_eq!(
                            (&a.name, &a.shape, a.data.len()),
                            (&b.name, &b.shape, b.data.len())
                        );
                    }
                    check(file.check_values(2));
                }
                Err(error) => check::<(), _>(Err(error)),
            }
        });
    });
}

#[test]
fn trace() {
    let turn = Turn::wait();
    bolero::check!().for_each(|input: &[u8]| {
        let mut input = Reader::new(input);
        let format = TraceFormat::ALL.get(input.index(TraceFormat::ALL.len() + 1)).copied();
        let bytes = input.rest();
        // gzip packs a thousandfold.
        let most = 16 * MIB + 20_000 * bytes.len();
        turn.bounded(most, || match Trace::read(bytes, "trace", format) {
            Ok(trace) => {
                let mut last = 0.0;
                for job in &trace.submissions {
                    assert!(job.submit_s >= last && job.submit_s.is_finite(), "{job:?}");
                    assert!(
                        job.duration_s > 0.0 && job.duration_s.is_finite() && job.gpus > 0,
                        "{job:?}"
                    );
                    last = job.submit_s;
                }
                let mut text = Vec::new();
                trace.write(&mut text).expect("memory takes everything");
                Trace::read(text.as_slice(), "again", Some(TraceFormat::Compact))
                    .expect("our own format");
            }
            Err(error) => check::<(), _>(Err(error)),
        });
    });
}
