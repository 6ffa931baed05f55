//! Makes the certificates of a testbed.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, bail};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::{expiry, identity};

/// The root's certificate and key.
const ROOT: &str = "ca.pem";
const ROOT_KEY: &str = "ca.key";

/// The lifetime of a root in days, and so the longest of other certificates.
pub const MOST_DAYS: u32 = 3650;

/// Modes of files.
const PUBLIC: u32 = 0o644;
const PRIVATE: u32 = 0o600;

const DAY: Duration = Duration::from_secs(86_400);

/// Clocks of other hosts may be behind by this much.
const SKEW: Duration = Duration::from_secs(3600);

/// Makes an [`Identity`](crate::Identity) for each name, in the subdirectory of that name: a certificate that is valid for
/// some `days` from now on, its key, and the root. It replaces earlier ones. A name may have addresses, as in
/// `s1=10.0.0.1`: the certificate is also for these. The root is `ca.pem` in the directory itself, with its key `ca.key`;
/// both are made if they are missing. Returns the subdirectories, after the root if that was made.
///
/// # Errors
/// If a name or an address is invalid, the root expires before that, or a file cannot be read or written.
pub fn make(directory: &Path, names: &[String], days: u32) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for name in names {
        let mut parts = name.split('=');
        let host = parts.next().unwrap_or_default();
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || ".-_".contains(letter);
        if host.is_empty() || host.starts_with('.') || !host.chars().all(is_letter) {
            bail!("`{host}` is not a host name; write letters, digits, `-`, `_` and `.`");
        }
        if ["ca", ROOT, ROOT_KEY].contains(&host) {
            bail!("`{host}` is the root's name; choose another one");
        }
        let addresses = parts.flat_map(|list| list.split(',')).map(|text| {
            let address: Result<IpAddr, _> = text.parse();
            address.with_context(|| format!("{name}: `{text}` is not an IP address"))
        });
        all.push((host, addresses.collect::<Result<Vec<_>>>()?));
    }
    fs::create_dir_all(directory).with_context(|| format!("cannot use {}", directory.display()))?;
    let mut written = Vec::new();
    let now =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).context("the clock is wrong")?;
    let end = now + days * DAY;
    let issuer = root(directory, now, &mut written)?;
    let root = directory.join(ROOT);
    if expiry::of(&root)? < end.as_secs() {
        bail!(
            "{} expires within {days} days; ask for fewer (--days), or remove it and its key to make another \
             root",
            root.display()
        );
    }
    let roots = read(&root)?;
    for (host, addresses) in all {
        let mut params = valid(CertificateParams::new(vec![host.to_owned()])?, now, end);
        params.distinguished_name.push(DnType::CommonName, host);
        let addresses = addresses.into_iter().map(rcgen::SanType::IpAddress);
        params.subject_alt_names.extend(addresses);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &issuer)?;
        let own = directory.join(host);
        fs::create_dir_all(&own).with_context(|| format!("cannot use {}", own.display()))?;
        put(&own.join(identity::ROOTS), &roots, PUBLIC)?;
        put(&own.join(identity::KEY), &key.serialize_pem(), PRIVATE)?;
        put(&own.join(identity::CERTIFICATE), &certificate.pem(), PUBLIC)?;
        written.push(own);
    }
    Ok(written)
}

/// Valid between two times since 1970.
fn valid(mut params: CertificateParams, begin: Duration, end: Duration) -> CertificateParams {
    let zero = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = zero + begin.saturating_sub(SKEW);
    params.not_after = zero + end;
    params
}

/// The root of a directory, made if there is none.
fn root(
    directory: &Path,
    now: Duration,
    written: &mut Vec<PathBuf>,
) -> Result<Issuer<'static, KeyPair>> {
    let (certificate, key) = (directory.join(ROOT), directory.join(ROOT_KEY));
    if certificate.exists() || key.exists() {
        let (text, key) = (read(&certificate)?, KeyPair::from_pem(&read(&key)?)?);
        return Ok(Issuer::from_ca_cert_pem(&text, key)?);
    }
    let mut params = valid(CertificateParams::default(), now, now + MOST_DAYS * DAY);
    params.distinguished_name.push(DnType::CommonName, "Tributary testbed");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let own = KeyPair::generate()?;
    let text = params.self_signed(&own)?.pem();
    put(&key, &own.serialize_pem(), PRIVATE)?;
    put(&certificate, &text, PUBLIC)?;
    written.push(certificate);
    Ok(Issuer::new(params, own))
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn put(path: &Path, text: &str, mode: u32) -> Result<()> {
    tributary_base::write_whole_with_mode(path, text, mode)
        .with_context(|| format!("cannot write {}", path.display()))
}
