//! Callers, roles and tenants.

use std::collections::BTreeMap;
use std::fmt;
use std::num::{NonZeroU8, NonZeroU64};
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use nix::unistd::{Uid, User};
use tonic::{Request, Status};
use tributary_base::document::{Document, Error, Item, Kind, Table};

use crate::fresh::Fresh;

const FILE: Kind = Kind { name: "access file", page: "docs/operate/access.md" };

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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// See everything, change nothing.
    Observe,
    /// Have jobs, within its tenant, and take part in them. Without a tenant, it also observes.
    Submit,
    /// Be the agent of the server that its certificate names, serve as its parameter server, and take part in jobs whose
    /// key it has.
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
#[derive(Clone, PartialEq, Debug)]
pub struct Tenant {
    /// Its name.
    pub name: String,
    /// Most jobs at a time.
    pub jobs: Option<u32>,
    /// Most aggregators that its jobs have together: the sum of their segments.
    pub aggregators: Option<u32>,
    /// Most bits of values per second that each worker of its jobs sends.
    pub max_rate: Option<NonZeroU64>,
    /// Most bits of values per second that each worker of its jobs sends with a priority (ESA).
    pub max_preemption: Option<NonZeroU64>,
    /// Highest priority of its packets (ESA).
    pub max_priority: Option<NonZeroU8>,
    /// Highest value of its jobs at the placement manager.
    pub max_value: Option<f64>,
}

/// What may be the highest value of a job: values are above 0.
const VALUES: RangeInclusive<f64> = 1e-9..=1e9;

impl Tenant {
    fn without_limits(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            jobs: None,
            aggregators: None,
            max_rate: None,
            max_preemption: None,
            max_priority: None,
            max_value: None,
        }
    }

    fn read(item: &Item<'_>) -> Result<Self, Error> {
        let keys = [
            &["name", "jobs", "aggregators", "max_rate", "max_preemption", "max_priority"][..],
            &["max_value"],
        ];
        let table = item.table("[[tenant]]", &keys.concat())?;
        let count = |key: &str| optional(&table, key, |item| item.integer32(0..=u32::MAX));
        let rate = |key: &str| optional(&table, key, |item| item.rate(1..=u64::MAX));
        let priority = optional(&table, "max_priority", |item| item.integer32(1..=u8::MAX.into()))?;
        Ok(Self {
            name: table.require("name", "\"blue\"")?.string("blue")?.to_owned(),
            jobs: count("jobs")?,
            aggregators: count("aggregators")?,
            max_rate: rate("max_rate")?.and_then(NonZeroU64::new),
            max_preemption: rate("max_preemption")?.and_then(NonZeroU64::new),
            max_priority: priority.and_then(|priority| NonZeroU8::new(priority as u8)),
            max_value: optional(&table, "max_value", |item| item.number(VALUES))?,
        })
    }
}

/// The value of a key, if the table has it.
fn optional<'a, T>(
    table: &Table<'a>,
    key: &str,
    read: impl FnOnce(&Item<'a>) -> Result<T, Error>,
) -> Result<Option<T>, Error> {
    table.get(key).map(|item| read(&item)).transpose()
}

/// What a caller may do. Each request has one.
#[derive(Clone, PartialEq, Debug)]
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

    /// The tenant of a request: the caller's own, or the one that an operator names. `policy` is the one that let the
    /// request in, and has the limits of that tenant. An empty name stands for the caller's own.
    ///
    /// # Errors
    /// `PERMISSION_DENIED` if another client names a tenant that is not its own.
    pub fn on_behalf_of(
        &self,
        name: &str,
        policy: Option<&Policy>,
    ) -> Result<Option<Arc<Tenant>>, Status> {
        match &self.tenant {
            own if name.is_empty() => Ok(own.clone()),
            Some(own) if own.name == name => Ok(Some(Arc::clone(own))),
            None if self.role == Role::Operate => {
                let listed = policy.map(Policy::tenants).unwrap_or_default();
                let listed = listed.into_iter().find(|tenant| tenant.name == name);
                if listed.is_none() && policy.is_some_and(Policy::is_list) {
                    tracing::warn!(
                        "the file of --access has no tenant `{name}`, which has no limits then"
                    );
                }
                Ok(Some(listed.unwrap_or_else(|| Arc::new(Tenant::without_limits(name)))))
            }
            _ => Err(Status::permission_denied(format!(
                "{} may not have jobs of the tenant `{name}`: a client that has jobs for others has the role `{}`",
                self.caller,
                Role::Operate
            ))),
        }
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
    /// Every accepted client may observe.
    AllMayObserve,
    Listed(Fresh<Arc<List>>),
}

impl Policy {
    /// The policy that has let a request in.
    #[must_use]
    pub fn of<T>(request: &Request<T>) -> Option<&Self> {
        request.extensions().get()
    }

    /// All that the server lets in may do everything.
    #[must_use]
    pub fn all_may_operate() -> Self {
        Self(Arc::new(Rules::AllMayOperate))
    }

    /// Every accepted client may observe, and change nothing.
    #[must_use]
    pub fn all_may_observe() -> Self {
        Self(Arc::new(Rules::AllMayObserve))
    }

    /// Reads an access file, and again when it changes.
    ///
    /// # Errors
    /// One line, if it cannot be read or is invalid.
    pub fn read(path: &Path) -> Result<Self, String> {
        let own = path.to_owned();
        let read = move || {
            let text = FILE.read(&own).map_err(|error| error.to_string())?;
            let list = List::parse(&text, &own.display().to_string());
            list.map(Arc::new).map_err(|error| error.to_string())
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
            Rules::AllMayOperate | Rules::AllMayObserve => Vec::new(),
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
            Rules::AllMayObserve => (Role::Observe, None),
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

#[derive(Debug)]
struct Client {
    identity: Identity,
    role: Role,
    tenant: Option<Arc<Tenant>>,
}

#[derive(Debug)]
enum Identity {
    /// A name in its certificate. `*.` at its beginning stands for any one label.
    Certificate(String),
    /// The number of a user of this machine. Names are looked up when the file is read.
    User(u32),
}

const ROLES: [(&str, Role); 4] = [
    ("observe", Role::Observe),
    ("submit", Role::Submit),
    ("agent", Role::Agent),
    ("operate", Role::Operate),
];

impl Client {
    fn read(item: &Item<'_>, tenants: &BTreeMap<String, Arc<Tenant>>) -> Result<Self, Error> {
        let table = item.table("[[client]]", &["certificate", "user", "role", "tenant"])?;
        let role = table.require("role", "\"observe\"")?.choice(&ROLES)?;
        let identity = match (table.get("certificate"), table.get("user")) {
            (Some(name), None) => Identity::Certificate(name.string("w1.example")?.to_owned()),
            (None, Some(user)) if role == Role::Agent => {
                return Err(
                    user.fault("an agent is known by its certificate", "give `certificate`")
                );
            }
            (None, Some(user)) => Identity::User(number(&user)?),
            _ => {
                let fix = "give either `certificate` or `user`";
                return Err(table.fault("it is not clear who this client is", fix));
            }
        };
        let tenant = optional(&table, "tenant", |item| {
            let name = item.string("blue")?;
            let tenant = tenants.get(name).ok_or_else(|| {
                item.fault(format!("unknown tenant `{name}`"), "add a [[tenant]] of this name")
            })?;
            match role {
                Role::Operate | Role::Agent => {
                    let problem = format!("the role `{role}` is for all tenants");
                    Err(item.fault(problem, "remove `tenant`"))
                }
                Role::Observe | Role::Submit => Ok(Arc::clone(tenant)),
            }
        })?;
        Ok(Self { identity, role, tenant })
    }

    fn is(&self, caller: &Caller) -> bool {
        match (caller, &self.identity) {
            (Caller::Certified(names), Identity::Certificate(pattern)) => {
                names.iter().any(|name| matches(pattern, name))
            }
            (Caller::User(id), Identity::User(number)) => number == id,
            _ => false,
        }
    }
}

/// The number of a user of this machine, who is given by name or number.
fn number(item: &Item<'_>) -> Result<u32, Error> {
    if !item.is_string() {
        return item.integer32(0..=u32::MAX);
    }
    let name = item.string("alice")?;
    match User::from_name(name) {
        Ok(Some(user)) => Ok(user.uid.as_raw()),
        Ok(None) => {
            Err(item.fault(format!("unknown user `{name}`"), "give a user of this machine"))
        }
        Err(error) => Err(item.fault(
            format!("cannot look up user `{name}`: {error}"),
            "give the number of the user",
        )),
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
    fn parse(text: &str, file: &str) -> Result<Self, Error> {
        let document = Document::parse(FILE, text, file)?;
        let table = document.table(&["tenant", "client"])?;
        let mut tenants = BTreeMap::new();
        for item in table.items("tenant")? {
            let tenant = Tenant::read(&item)?;
            let name = tenant.name.clone();
            if tenants.insert(name.clone(), Arc::new(tenant)).is_some() {
                let problem = format!("there are two tenants `{name}`");
                return Err(item.fault(problem, "give each a name of its own"));
            }
        }
        if table.get("client").is_none() {
            let fix = "add a [[client]] with `certificate` or `user`, and `role`";
            return Err(table.fault("there is no client", fix));
        }
        let clients = table.items("client")?;
        let clients = clients.iter().map(|item| Client::read(item, &tenants));
        Ok(Self { clients: clients.collect::<Result<_, _>>()?, tenants })
    }

    /// The first client in the list that the caller is.
    fn find(&self, caller: &Caller) -> Option<(Role, Option<Arc<Tenant>>)> {
        let client = self.clients.iter().find(|client| client.is(caller))?;
        Some((client.role, client.tenant.clone()))
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
        let (role, tenant) = List::parse(FILE, "access.toml").unwrap().find(&certified(name))?;
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
        let list = List::parse(FILE, "access.toml").unwrap();
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
    fn an_operator_has_jobs_for_any_tenant() {
        let policy = Policy(Arc::new(Rules::Listed(
            Fresh::new(Vec::new(), || Ok(Arc::new(List::parse(FILE, "access").unwrap()))).unwrap(),
        )));
        let on_behalf = |grant: &Grant, name: &str| grant.on_behalf_of(name, Some(&policy));
        let operator = Grant::operator();
        assert_eq!(on_behalf(&operator, "").unwrap(), None);
        assert_eq!(on_behalf(&operator, "blue").unwrap().unwrap().jobs, Some(2));
        let other = on_behalf(&operator, "green").unwrap().unwrap();
        assert_eq!((&*other.name, other.jobs), ("green", None));
        let blue = Grant::new(Caller::Anyone, Role::Submit, Some(Arc::clone(&policy.tenants()[0])));
        for own in ["", "blue"] {
            assert_eq!(on_behalf(&blue, own).unwrap().unwrap().name, "blue");
        }
        assert_eq!(on_behalf(&blue, "green").unwrap_err().code(), tonic::Code::PermissionDenied);
        let nobody = Grant::new(Caller::Anyone, Role::Submit, None);
        assert!(on_behalf(&nobody, "blue").is_err(), "only operators have jobs for others");
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
            ("", "1:1: there is no client; add a [[client]]"),
            ("[[client]\nrole = \"observe\"\n", "1:"),
            ("[[client]]\nrole = \"king\"\n", "2:8: `role` cannot be \"king\"; choose one of"),
            ("[[client]]\nuser = 7\n", "1:1: [[client]] has no `role`; add"),
            ("[[client]]\nrole = \"observe\"\n", "1:1: it is not clear who this client is; give"),
            (
                "[[client]]\nrole = \"submit\"\nuser = 7\ntenant = \"b\"\n",
                "4:10: unknown tenant `b`; add a [[tenant]]",
            ),
            (
                "[[tenant]]\nname = \"b\"\n[[client]]\nrole = \"operate\"\nuser = 1\ntenant = \"b\"\n",
                "6:10: the role `operate` is for all tenants; remove `tenant`",
            ),
            (
                "[[client]]\nrole = \"observe\"\nuser = \"no such\"\n",
                "3:8: unknown user `no such`; give",
            ),
            (
                "[[client]]\nrole = \"agent\"\nuser = 7\n",
                "3:8: an agent is known by its certificate; give",
            ),
            (
                "client = []\n[[tenant]]\nname = \"b\"\n[[tenant]]\nname = \"b\"\n",
                "4:1: there are two tenants `b`; give",
            ),
            (
                "client = []\n[[tenant]]\nname = \"b\"\nmax_rate = \"10 apples\"\n",
                "4:12: `max_rate` is `10 apples`, not a rate; write",
            ),
            (
                "client = []\n[[tenant]]\nname = \"b\"\nmax_value = 0\n",
                "4:13: `max_value` is 0, out of range; choose a value from",
            ),
            (
                "client = []\n[[tenant]]\nname = \"b\"\nmax_prioritty = 9\n",
                "4:1: unknown key `max_prioritty` in [[tenant]]; did you mean `max_priority`?",
            ),
        ] {
            let error = List::parse(text, "access.toml").unwrap_err().to_string();
            assert!(error.starts_with(&format!("access.toml:{expected}")), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
