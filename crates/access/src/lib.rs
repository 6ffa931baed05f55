//! Who may use the control plane.
//!
//! All gRPC services of Tributary are behind a [`Server`] of this crate. It listens at a Unix socket or a TCP
//! address, finds out who [calls](Caller), and hands each service the [`Grant`] that the [`Policy`] has for
//! the caller. Services ask the grant of each request whether it [allows](Grant::require) what is
//! requested; a request without a grant is refused.
//!
//! | module | content |
//! | --- | --- |
//! | [`listen`] | addresses of servers |
//! | [`policy`] | callers, roles and tenants, and the file that lists them |
//! | [`connection`] | connections of clients, and who they are |
//! | [`transport`] | HTTP/2 on connections: passes requests with their grants |
//! | [`server`] | accepts connections, and serves on them |
//! | `silence` | peers that vanish without closing their connections |
//! | `pem` | reads certificates and keys |
//! | [`keys`] | certificates of servers and clients, which are read again when their files change |
//! | [`expiry`] | when the certificates of this process end |
//! | [`remote`] | connections of clients |
//! | [`identity`] | certificate, key and roots of a process, in one directory |
//! | [`args`] | options of the command line |
//! | `certs` | makes the certificates of a testbed (feature `certs`) |

pub mod args;
#[cfg(feature = "certs")]
pub mod certs;
pub mod connection;
pub mod expiry;
mod fresh;
pub mod identity;
pub mod keys;
pub mod listen;
mod pem;
pub mod policy;
mod refusals;
pub mod remote;
pub mod server;
mod silence;
pub mod transport;

pub use identity::Identity;
pub use keys::{ClientKeys, KeyError, ServerKeys};
pub use listen::Listen;
pub use policy::{Caller, Grant, Policy, Role, Tenant};
pub use remote::Remote;
pub use server::{Door, Limits, SILENCE, Server};
pub use silence::Silence;
