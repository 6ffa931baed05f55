//! Makes the certificates of a testbed.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// The root's certificate and key.
const ROOT: &str = "ca";

/// Makes a certificate for each name, and its key: `NAME.pem` and `NAME.key` in a directory, in place of
/// earlier ones. A name may have addresses, as in `s1=10.0.0.1`, with which clients that connect to one of
/// them find the server's certificate to be right. Their root is `ca.pem`, which is made if it is not
/// there. Returns the files that were written.
///
/// # Errors
/// If a name or an address is invalid, or a file cannot be read or written.
pub fn make(directory: &Path, names: &[String]) -> Result<Vec<PathBuf>> {
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
    let issuer = root(directory, &mut written)?;
    for (host, addresses) in all {
        let mut params = CertificateParams::new(vec![host.to_owned()])?;
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

/// The root of a directory, made if there is none.
fn root(directory: &Path, written: &mut Vec<PathBuf>) -> Result<Issuer<'static, KeyPair>> {
    let [certificate, key] = files(directory, ROOT);
    if certificate.exists() || key.exists() {
        let read = |path: &Path| {
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
        };
        let (text, key) = (read(&certificate)?, KeyPair::from_pem(&read(&key)?)?);
        return Ok(Issuer::from_ca_cert_pem(&text, key)?);
    }
    let mut params = CertificateParams::default();
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
    replace(&private, &key.serialize_pem(), 0o600)?;
    replace(&pem, certificate, 0o644)?;
    written.extend([pem, private]);
    Ok(())
}

/// Replaces a file whole, so that no reader finds half of it.
fn replace(path: &Path, text: &str, mode: u32) -> Result<()> {
    let part = path.with_extension("part");
    let write = || -> io::Result<()> {
        drop(fs::remove_file(&part));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&part)?;
        file.write_all(text.as_bytes())?;
        fs::rename(&part, path)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}
