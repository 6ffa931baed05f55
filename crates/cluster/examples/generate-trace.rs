//! Generates a synthetic trace like Philly's, in our own format:
//!
//! ```sh
//! cargo run -p tributary-cluster --example generate-trace -- 400 1 > examples/placement/sample.csv
//! ```

use std::error::Error;
use std::io::{self, BufWriter, Write};

use tributary_cluster::trace::Generator;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |what| arguments.next().ok_or(format!("give {what}"));
    let (jobs, seed) = (next("how many jobs")?.parse()?, next("a seed")?.parse()?);
    let mut to = BufWriter::new(io::stdout().lock());
    Generator::trace(jobs, seed).write(&mut to)?;
    Ok(to.flush()?)
}
