//! `tributary certs`: the certificates of a testbed.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use tributary_access::certs;

#[derive(Debug, Args)]
pub(crate) struct CertsArgs {
    /// Directory of the identities; created if missing. Each name gets a subdirectory for --identity. `ca.pem`
    /// is the root of all certificates, made if it is missing.
    directory: PathBuf,
    /// Name of a server or a client; repeat for each. For a server that clients reach at IP addresses
    /// NAME=ADDRESS,ADDRESS.
    #[arg(required = true, value_name = "NAME[=ADDRESS,…]")]
    names: Vec<String>,
    /// For how many days the certificates are valid. A root is valid for 3650 days from when it is made.
    #[arg(long, value_name = "DAYS", default_value_t = 365,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(certs::MOST_DAYS)))]
    days: u32,
}

/// Makes them. Those of earlier calls are replaced, which running processes notice.
///
/// # Errors
/// One line that describes the problem.
pub(crate) fn run(args: &CertsArgs) -> Result<()> {
    for file in certs::make(&args.directory, &args.names, args.days)? {
        tributary_base::say!("{}", file.display());
    }
    Ok(())
}
