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
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use x509_parser::parse_x509_certificate;

/// The root's certificate and key.
const ROOT: &str = "ca";

/// The lifetime of a root in days, and so the longest of other certificates.
pub const MOST_DAYS: u32 = 3650;

const DAY: Duration = Duration::from_secs(86_400);

/// Clocks of other hosts may be behind by this much.
const SKEW: Duration = Duration::from_secs(3600);

/// Makes a certificate for each name that is valid for some `days` from now on, and its key: `NAME.pem` and `NAME.key` in a directory, in place of
/// earlier ones. A name may have addresses, as in `s1=10.0.0.1`, with which clients that connect to one of
/// them find the server's certificate to be right. Their root is `ca.pem`, which is made if it is not
/// there. Returns the files that were written.
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
        if host == ROOT {
            bail!("`{ROOT}` is the root's name; choose another one");
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
    let [root, _] = files(directory, ROOT);
    if expiry(&root)? < end.as_secs() {
        bail!(
            "{} expires within {days} days; ask for fewer (--days), or remove it and its key to make another \
             root",
            root.display()
        );
    }
    for (host, addresses) in all {
        let mut params = valid(CertificateParams::new(vec![host.to_owned()])?, now, end);
        params.distinguished_name.push(DnType::CommonName, host);
        let addresses = addresses.into_iter().map(rcgen::SanType::IpAddress);
        params.subject_alt_names.extend(addresses);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &issuer)?;
        write(directory, host, &certificate.pem(), &key, &mut written)?;
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

/// When a certificate ends, in seconds since 1970.
fn expiry(path: &Path) -> Result<u64> {
    let of = |path: &Path| -> Result<u64> {
        let certificate = CertificateDer::from_pem_file(path)?;
        let (_, parsed) = parse_x509_certificate(&certificate)?;
        Ok(u64::try_from(parsed.validity().not_after.timestamp()).unwrap_or(0))
    };
    of(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The root of a directory, made if there is none.
fn root(
    directory: &Path,
    now: Duration,
    written: &mut Vec<PathBuf>,
) -> Result<Issuer<'static, KeyPair>> {
    let [certificate, key] = files(directory, ROOT);
    if certificate.exists() || key.exists() {
        let read = |path: &Path| {
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
        };
        let (text, key) = (read(&certificate)?, KeyPair::from_pem(&read(&key)?)?);
        return Ok(Issuer::from_ca_cert_pem(&text, key)?);
    }
    let mut params = valid(CertificateParams::default(), now, now + MOST_DAYS * DAY);
    params.distinguished_name.push(DnType::CommonName, "Tributary testbed");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    write(directory, ROOT, &certificate.pem(), &key, written)?;
    Ok(Issuer::new(params, key))
}

fn files(directory: &Path, name: &str) -> [PathBuf; 2] {
    ["pem", "key"].map(|kind| directory.join(format!("{name}.{kind}")))
}

fn write(
    directory: &Path,
    name: &str,
    certificate: &str,
    key: &KeyPair,
    written: &mut Vec<PathBuf>,
) -> Result<()> {
    let [pem, private] = files(directory, name);
    for (path, text, mode) in [(&private, &*key.serialize_pem(), 0o600), (&pem, certificate, 0o644)]
    {
        tributary_base::write_whole_with_mode(path, text, mode)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    written.extend([pem, private]);
    Ok(())
}
