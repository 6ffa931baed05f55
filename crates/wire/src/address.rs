//! Addresses of hosts and of a job's multicast group.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use crate::JobId;

/// An Ethernet (MAC) address.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Debug,
    Default,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Whether this is a group address: the lowest bit of the first byte is set.
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 == 1
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Error: the text is not six hexadecimal bytes separated by colons.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("an Ethernet address is six hexadecimal bytes, as in 02:00:00:00:00:01")]
pub struct ParseMacError;

impl FromStr for Mac {
    type Err = ParseMacError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().ok_or(ParseMacError)?;
            // `from_str_radix` also accepts a sign.
            if part.len() != 2 || !part.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(ParseMacError);
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| ParseMacError)?;
        }
        match parts.next() {
            None => Ok(Self(bytes)),
            Some(_) => Err(ParseMacError),
        }
    }
}

/// The Ethernet and IPv4 addresses of a station or of a multicast group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize, serde::Deserialize)]
pub struct Host {
    /// Ethernet address.
    pub mac: Mac,
    /// IPv4 address.
    pub ip: Ipv4Addr,
}

impl Host {
    /// The multicast group of all workers of `job`: 239.84.*h*.*l* at 01:00:5e:54:*h*:*l*, where
    /// *h* and *l* are the high and low byte of the job number.
    pub const fn group(job: JobId) -> Self {
        let [high, low] = job.get().to_be_bytes();
        Self { mac: Mac([0x01, 0x00, 0x5e, 84, high, low]), ip: Ipv4Addr::new(239, 84, high, low) }
    }

    /// The destination of gradients of a job without a PS. It stands for the switch, which has no
    /// address. The Ethernet address is 02:00:5e:54:*h*:*l*, which no station uses. The IPv4
    /// address is 192.0.0.8, the dummy address of RFC 7600, which no host uses.
    pub const fn service(job: JobId) -> Self {
        let [high, low] = job.get().to_be_bytes();
        Self { mac: Mac([0x02, 0x00, 0x5e, 84, high, low]), ip: Ipv4Addr::new(192, 0, 0, 8) }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.ip, self.mac)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_follows_rfc_1112() {
        // RFC 1112 §6.4: the low 23 bits of the IP address go into 01:00:5e:00:00:00.
        for number in [1, 255, 256, 0x1234, u16::MAX] {
            let group = Host::group(JobId::new(number).unwrap());
            let low = u32::from(group.ip) & 0x7f_ffff;
            let [_, a, b, c] = low.to_be_bytes();
            assert_eq!(group.mac, Mac([0x01, 0x00, 0x5e, a, b, c]));
            assert!(group.ip.is_multicast() && group.mac.is_multicast());
            assert_eq!(u32::from(group.ip) & 0xffff, u32::from(number));
        }
    }

    #[test]
    fn service_addresses_are_unicast_and_tell_jobs_apart() {
        for number in [1, 255, 256, 0x1234, u16::MAX] {
            let job = JobId::new(number).unwrap();
            let service = Host::service(job);
            assert!(!service.mac.is_multicast() && !service.ip.is_multicast());
            assert_eq!(service.mac.0[4..], number.to_be_bytes());
            assert_ne!(service.mac, Host::group(job).mac);
        }
    }

    #[test]
    fn mac_text_round_trips_and_rejects() {
        let mac = Mac([0x02, 0, 0, 0xab, 0xcd, 0xef]);
        assert_eq!(mac.to_string(), "02:00:00:ab:cd:ef");
        assert_eq!(mac.to_string().parse(), Ok(mac));
        for bad in
            ["", "02:00:00:ab:cd", "02:00:00:ab:cd:ef:00", "2:0:0:1:2:3", "02:00:00:ab:cd:+f"]
        {
            assert_eq!(bad.parse::<Mac>(), Err(ParseMacError), "{bad}");
        }
    }
}
