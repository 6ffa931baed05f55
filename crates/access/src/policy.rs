//! Callers, roles and tenants.

use std::collections::BTreeMap;
use std::fmt;
use std::num::{NonZeroU8, NonZeroU64};
use std::path::Path;
use std::sync::Arc;

use nix::unistd::{Uid, User};
use serde::{Deserialize, Deserializer};
use tonic::{Request, Status};
use tributary_limits::FileLimit;

use crate::fresh::Fresh;

/// A list of some thousand clients.
const FILE: FileLimit = FileLimit::new("access file", 1 << 20);

/// Who is at the other end of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Caller {
    /// The holder of a certificate with these names.
    Certified(Arc<[String]>),
    /// A process of a user of this machine.
    User(u32),
    /// Anyone who reaches the address.
    Anyone,
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Certified(names) if names.is_empty() => {
                f.write_str("a certificate without a name")
            }
            Self::Certified(names) => write!(f, "the certificate of {}", names.join(", ")),
            Self::User(id) => match User::from_uid(Uid::from_raw(*id)) {
                Ok(Some(user)) => write!(f, "user {}", user.name),
                _ => write!(f, "user {id}"),
            },
            Self::Anyone => f.write_str("a client without a certificate"),
        }
    }
}

/// What a client may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// See everything, change nothing.
    Observe,
    /// Have jobs, within its tenant, and take part in them. Without a tenant, it also observes.
    Submit,
    /// Be the agent of the server that its certificate names, and nothing else.
    Agent,
    /// Everything.
    Operate,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Observe => "observe",
            Self::Submit => "submit",
            Self::Agent => "agent",
            Self::Operate => "operate",
        })
    }
}

/// Clients that share a quota, and see and change only their own jobs.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tenant {
    /// Its name.
    pub name: String,
    /// Most jobs at a time.
    pub jobs: Option<u32>,
    /// Most aggregators that its jobs have together: the sum of their segments.
    pub aggregators: Option<u32>,
    /// Most bits of values per second that each worker of its jobs sends.
    #[serde(default, deserialize_with = "rate")]
    pub max_rate: Option<NonZeroU64>,
    /// Most bits of values per second that each worker of its jobs sends with a priority (ESA).
    #[serde(default, deserialize_with = "rate")]
    pub max_preemption: Option<NonZeroU64>,
    /// Highest priority of its packets (ESA).
    pub max_priority: Option<NonZeroU8>,
}

/// A rate such as `10Gb/s`.
fn rate<'de, D: Deserializer<'de>>(from: D) -> Result<Option<NonZeroU64>, D::Error> {
    let text = String::deserialize(from)?;
    let rate = tributary_document::rate(&text).and_then(NonZeroU64::new);
    rate.map(Some).ok_or_else(|| {
        let why = format!("`{text}` is not a rate; write for example \"10Gb/s\"");
        serde::de::Error::custom(why)
    })
}

/// What a caller may do. Each request has one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    caller: Caller,
    role: Role,
    tenant: Option<Arc<Tenant>>,
}

impl Grant {
    /// The grant of a request.
    ///
    /// # Errors
    /// `PERMISSION_DENIED` if it has none.
    pub fn of<T>(request: &Request<T>) -> Result<Self, Status> {
        let grant = request.extensions().get::<Self>().cloned();
        grant.ok_or_else(|| Status::permission_denied("the server does not know who asks"))
    }

    /// The grant of a role.
    #[must_use]
    pub fn new(caller: Caller, role: Role, tenant: Option<Arc<Tenant>>) -> Self {
        Self { caller, role, tenant }
    }

    /// A grant of everything.
    #[must_use]
    pub fn operator() -> Self {
        Self::new(Caller::Anyone, Role::Operate, None)
    }

    /// Returns the grant if it allows what the role does.
    ///
    /// # Errors
    /// `PERMISSION_DENIED`.
    pub fn require(self, role: Role) -> Result<Self, Status> {
        let may = match self.role {
            Role::Operate => true,
            Role::Submit => matches!(role, Role::Submit | Role::Observe),
            own => own == role,
        };
        if may {
            return Ok(self);
        }
        Err(Status::permission_denied(format!(
            "{} has the role `{}`, and this needs `{role}`",
            self.caller, self.role
        )))
    }

    /// The tenant whose jobs it is about.
    #[must_use]
    pub fn tenant(&self) -> Option<&Arc<Tenant>> {
        self.tenant.as_ref()
    }

    /// Whether the jobs of a tenant are its business, to see or change them, as far as the role allows.
    #[must_use]
    pub fn covers(&self, tenant: Option<&str>) -> bool {
        match (self.role, &self.tenant) {
            (Role::Operate | Role::Observe, None) => true,
            (_, own) => own.as_ref().map(|own| &*own.name) == tenant,
        }
    }

    /// Checks that it may speak for a server.
    ///
    /// # Errors
    /// `PERMISSION_DENIED`.
    pub fn require_server(&self, server: &str) -> Result<(), Status> {
        let is_named = match &self.caller {
            Caller::Certified(names) => names.iter().any(|name| names_server(name, server)),
            Caller::User(_) | Caller::Anyone => false,
        };
        if self.role == Role::Operate || self.role == Role::Agent && is_named {
            return Ok(());
        }
        Err(Status::permission_denied(format!(
            "{} with the role `{}` may not be the agent of server `{server}`",
            self.caller, self.role
        )))
    }
}

/// Whether a certificate's name is a server's, perhaps with a domain.
fn names_server(name: &str, server: &str) -> bool {
    name.strip_prefix(server).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Who may do what.
#[derive(Clone, Debug)]
pub struct Policy(Arc<Rules>);

#[derive(Debug)]
enum Rules {
    /// Each client that the server accepts may do everything.
    AllMayOperate,
    Listed(Fresh<Arc<List>>),
}

impl Policy {
    /// All that the server lets in may do everything.
    #[must_use]
    pub fn all_may_operate() -> Self {
        Self(Arc::new(Rules::AllMayOperate))
    }

    /// Reads an access file, and again when it changes.
    ///
    /// # Errors
    /// One line, if it cannot be read or is invalid.
    pub fn read(path: &Path) -> Result<Self, String> {
        let own = path.to_owned();
        let read = move || {
            let text =
                FILE.read_text(&own).map_err(|error| format!("{}: {error}", own.display()))?;
            List::parse(&text).map(Arc::new).map_err(|what| format!("{}: {what}", own.display()))
        };
        Ok(Self(Arc::new(Rules::Listed(Fresh::new(vec![path.to_owned()], read)?))))
    }

    /// Whether it lists clients.
    #[must_use]
    pub fn is_list(&self) -> bool {
        matches!(&*self.0, Rules::Listed(_))
    }

    /// The tenants that it lists.
    #[must_use]
    pub fn tenants(&self) -> Vec<Arc<Tenant>> {
        match &*self.0 {
            Rules::AllMayOperate => Vec::new(),
            Rules::Listed(list) => list.get().tenants.values().cloned().collect(),
        }
    }

    /// What a caller may do; `None` for nothing. This user and root operate, if they use a Unix socket.
    pub(crate) fn grant(&self, caller: &Caller) -> Option<Grant> {
        let is_own = match caller {
            Caller::User(id) => *id == 0 || *id == Uid::effective().as_raw(),
            _ => false,
        };
        let (role, tenant) = match &*self.0 {
            _ if is_own => (Role::Operate, None),
            Rules::AllMayOperate if matches!(caller, Caller::User(_)) => return None,
            Rules::AllMayOperate => (Role::Operate, None),
            Rules::Listed(list) => list.get().find(caller)?,
        };
        Some(Grant::new(caller.clone(), role, tenant))
    }
}

/// The contents of an access file.
#[derive(Debug)]
struct List {
    clients: Vec<Client>,
    tenants: BTreeMap<String, Arc<Tenant>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    tenant: Vec<Tenant>,
    client: Vec<Client>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Client {
    /// A name in its certificate. `*.` at its beginning stands for any one label.
    certificate: Option<String>,
    /// Name or number of a user of this machine.
    user: Option<Account>,
    role: Role,
    tenant: Option<String>,
}

/// The number of a user. Names are looked up when the file is read.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "Named")]
struct Account(u32);

#[derive(Deserialize)]
#[serde(untagged)]
enum Named {
    Number(u32),
    Name(String),
}

impl TryFrom<Named> for Account {
    type Error = String;

    fn try_from(named: Named) -> Result<Self, String> {
        match named {
            Named::Number(number) => Ok(Self(number)),
            Named::Name(name) => match User::from_name(&name) {
                Ok(Some(user)) => Ok(Self(user.uid.as_raw())),
                Ok(None) => Err(format!("unknown user `{name}`")),
                Err(error) => Err(format!("cannot look up user `{name}`: {error}")),
            },
        }
    }
}

impl Client {
    fn is(&self, caller: &Caller) -> bool {
        match (caller, &self.certificate, &self.user) {
            (Caller::Certified(names), Some(pattern), _) => {
                names.iter().any(|name| matches(pattern, name))
            }
            (Caller::User(id), _, Some(account)) => account.0 == *id,
            _ => false,
        }
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_prefix("*.") {
        None => pattern == name,
        Some(domain) => {
            name.split_once('.').is_some_and(|(label, rest)| !label.is_empty() && rest == domain)
        }
    }
}

impl List {
    fn parse(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| 1 + text[..span.start].matches('\n').count());
            let line = line.map(|line| format!("line {line}: ")).unwrap_or_default();
            format!("{line}{}", error.message())
        })?;
        let mut tenants = BTreeMap::new();
        for tenant in file.tenant {
            let name = tenant.name.clone();
            if tenants.insert(name.clone(), Arc::new(tenant)).is_some() {
                return Err(format!("duplicate tenant `{name}`"));
            }
        }
        for (number, client) in (1..).zip(&file.client) {
            let complain = |what: String| Err(format!("client {number}: {what}"));
            if client.certificate.is_some() == client.user.is_some() {
                return complain("say either `certificate` or `user`".into());
            }
            if client.role == Role::Agent && client.certificate.is_none() {
                return complain("an agent is known by its certificate".into());
            }
            match (&client.tenant, client.role) {
                (Some(tenant), _) if !tenants.contains_key(tenant) => {
                    return complain(format!("unknown tenant `{tenant}`"));
                }
                (Some(_), role @ (Role::Operate | Role::Agent)) => {
                    return complain(format!(
                        "the role `{role}` is for all tenants; remove `tenant`"
                    ));
                }
                _ => {}
            }
        }
        Ok(Self { clients: file.client, tenants })
    }

    /// The first client in the list that the caller is.
    fn find(&self, caller: &Caller) -> Option<(Role, Option<Arc<Tenant>>)> {
        let client = self.clients.iter().find(|client| client.is(caller))?;
        let tenant = client.tenant.as_ref().and_then(|name| self.tenants.get(name));
        Some((client.role, tenant.cloned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        [[tenant]]
        name = "blue"
        jobs = 2
        [[client]]
        certificate = "control.example"
        role = "operate"
        [[client]]
        certificate = "*.blue.example"
        role = "submit"
        tenant = "blue"
        [[client]]
        certificate = "*.nodes.example"
        role = "agent"
        [[client]]
        user = 4294967290
        role = "observe"
    "#;

    fn certified(name: &str) -> Caller {
        Caller::Certified([name.to_owned()].into())
    }

    fn grant(name: &str) -> Option<Grant> {
        let (role, tenant) = List::parse(FILE).unwrap().find(&certified(name))?;
        Some(Grant { caller: certified(name), role, tenant })
    }

    #[test]
    fn each_caller_may_do_what_its_role_says() {
        use Role::{Agent, Observe, Operate, Submit};
        for (name, allowed) in [
            ("control.example", &[Observe, Submit, Agent, Operate][..]),
            ("w1.blue.example", &[Observe, Submit]),
            ("s1.nodes.example", &[Agent]),
        ] {
            for role in [Observe, Submit, Agent, Operate] {
                let answer = grant(name).unwrap().require(role);
                assert_eq!(answer.is_ok(), allowed.contains(&role), "{name} {role}");
            }
        }
        for name in ["blue.example", "a.b.blue.example", ".blue.example", "control.example.org"] {
            assert_eq!(grant(name), None, "{name}");
        }
        let list = List::parse(FILE).unwrap();
        let user = list.find(&Caller::User(4_294_967_290));
        assert!(matches!(user, Some((Role::Observe, None))));
        assert!(list.find(&Caller::Anyone).is_none());
    }

    #[test]
    fn tenants_have_their_own_jobs() {
        let blue = grant("w1.blue.example").unwrap();
        assert_eq!(
            [None, Some("blue"), Some("red")].map(|of| blue.covers(of)),
            [false, true, false]
        );
        let all = grant("control.example").unwrap();
        assert_eq!([None, Some("blue"), Some("red")].map(|of| all.covers(of)), [true; 3]);
    }

    #[test]
    fn an_agent_speaks_for_the_server_that_its_certificate_names() {
        let agent = grant("s1.nodes.example").unwrap();
        assert!(agent.require_server("s1").is_ok());
        for server in ["s", "s2", "s1.nodes", "nodes"] {
            assert_eq!(agent.require_server(server).is_ok(), server == "s1.nodes", "{server}");
        }
        assert!(grant("w1.blue.example").unwrap().require_server("w1").is_err());
        assert!(grant("control.example").unwrap().require_server("s7").is_ok());
    }

    #[test]
    fn what_makes_no_sense_is_one_clear_line() {
        for (text, expected) in [
            ("", "line 1: missing field `client`"),
            ("[[client]]\nrole = \"king\"\n", "line 2: unknown variant `king`"),
            ("[[client]]\nrole = \"observe\"\n", "client 1: say either `certificate` or `user`"),
            (
                "[[client]]\nrole = \"submit\"\nuser = 7\ntenant = \"b\"\n",
                "client 1: unknown tenant `b`",
            ),
            (
                "[[tenant]]\nname = \"b\"\n[[client]]\nrole = \"operate\"\nuser = 1\ntenant = \"b\"\n",
                "client 1: the role `operate` is for all tenants; remove `tenant`",
            ),
            (
                "[[client]]\nrole = \"observe\"\nuser = \"no such\"\n",
                "line 3: unknown user `no such`",
            ),
            (
                "[[client]]\nrole = \"agent\"\nuser = 7\n",
                "client 1: an agent is known by its certificate",
            ),
            (
                "client = []\n[[tenant]]\nname = \"b\"\n[[tenant]]\nname = \"b\"\n",
                "duplicate tenant `b`",
            ),
        ] {
            let error = List::parse(text).unwrap_err();
            assert!(error.starts_with(expected) && !error.contains('\n'), "{error}");
        }
    }
}
