//! Arbitration between controllers (P4Runtime 1.4, "Client Arbitration and Controller
//! Replication"), without streams: messages go in, notifications come out.

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_p4runtime::google::rpc::{Code, Status};
use tributary_p4runtime::p4::v1::{MasterArbitrationUpdate, Role, Uint128};

use crate::entities::Refusal;
use crate::roles::{Access, RoleConfig};

/// The server's number of a stream.
pub(crate) type Client = u64;

/// An election id; the largest wins.
type ElectionId = u128;

/// Streams per role that may take part at the same time.
const MAX_CLIENTS: usize = 64;

/// Length limit of a role's name, in bytes.
const MAX_ROLE_NAME: usize = 256;

/// Number of roles that are remembered; they outlive their streams.
const MAX_ROLES: usize = 64;

#[derive(Debug)]
struct Candidate {
    role: String,
    /// Whether it names the role by a number, as controllers of P4Runtime 1.2 do.
    numbered: bool,
    /// `None`: stays a backup.
    election_id: Option<ElectionId>,
}

/// A message for one stream.
pub(crate) type Notification = (Client, MasterArbitrationUpdate);

/// The state of arbitration for one device.
#[derive(Debug)]
pub(crate) struct Arbitration {
    device_id: u64,
    candidates: BTreeMap<Client, Candidate>,
    /// The highest election id ever seen by role, which outlives its stream.
    highest: BTreeMap<String, ElectionId>,
    /// The configurations of roles that have one: as received, and decoded.
    configs: BTreeMap<String, (prost_types::Any, Arc<RoleConfig>)>,
}

pub(crate) fn election_id(id: Uint128) -> ElectionId {
    u128::from(id.high) << 64 | u128::from(id.low)
}

fn uint128(id: ElectionId) -> Uint128 {
    Uint128 { high: (id >> 64) as u64, low: id as u64 }
}

impl Arbitration {
    pub(crate) fn new(device_id: u64) -> Self {
        Self {
            device_id,
            candidates: BTreeMap::new(),
            highest: BTreeMap::new(),
            configs: BTreeMap::new(),
        }
    }

    /// Handles a bid. A refusal ends the stream; the notifications are sent in order.
    pub(crate) fn bid(
        &mut self,
        client: Client,
        update: &MasterArbitrationUpdate,
    ) -> Result<Vec<Notification>, Refusal> {
        let (role, numbered) = role_of(update.role.as_ref())?;
        let known = self.candidates.get(&client);
        if update.device_id != self.device_id {
            let message = format!("this is device {}, not {}", self.device_id, update.device_id);
            return Err(match known {
                None => Refusal::not_found(message),
                Some(_) => Refusal::failed_precondition(message),
            });
        }
        if known.is_some_and(|known| known.role != role) {
            return Err(Refusal::failed_precondition("a stream cannot change its role"));
        }
        let peers = self.candidates.values().filter(|candidate| candidate.role == role).count();
        let roles = || self.highest.len() >= MAX_ROLES && !self.highest.contains_key(&role);
        if known.is_none() && (peers >= MAX_CLIENTS || roles()) {
            return Err(Refusal::new(
                Code::ResourceExhausted,
                format!("there are {peers} controllers and {} roles already", self.highest.len()),
            ));
        }
        let bid = update.election_id.map(election_id);
        let taken = |(other, candidate): (&Client, &Candidate)| {
            *other != client && candidate.role == role && candidate.election_id == bid
        };
        if bid.is_some() && self.candidates.iter().any(taken) {
            return Err(Refusal::invalid(
                "the election id is used by another connected controller of this role",
            ));
        }
        let config = self.config_of(&role, update.role.as_ref())?;

        let was_primary = self.primary(&role) == Some(client);
        let candidate = Candidate { role: role.clone(), numbered, election_id: bid };
        self.candidates.insert(client, candidate);
        let wins = bid.is_some_and(|bid| self.highest.get(&role).is_none_or(|h| bid >= *h));
        if let (true, Some(bid)) = (wins, bid) {
            self.highest.insert(role.clone(), bid);
            match config {
                Some(config) => drop(self.configs.insert(role.clone(), config)),
                None => drop(self.configs.remove(&role)),
            }
        }
        Ok(if wins || was_primary {
            self.tell_all(&role)
        } else {
            vec![(client, self.notification(&role, client))]
        })
    }

    /// Handles the end of a stream.
    pub(crate) fn leave(&mut self, client: Client) -> Vec<Notification> {
        let Some(candidate) = self.candidates.get(&client) else { return Vec::new() };
        let role = candidate.role.clone();
        let was_primary = self.primary(&role) == Some(client);
        self.candidates.remove(&client);
        if was_primary { self.tell_all(&role) } else { Vec::new() }
    }

    /// The primary of a role: the stream with the highest election id ever seen.
    pub(crate) fn primary(&self, role: &str) -> Option<Client> {
        let highest = self.highest.get(role)?;
        let mut candidates = self.candidates.iter();
        let found = candidates.find(|(_, c)| c.role == role && c.election_id == Some(*highest));
        found.map(|(&client, _)| client)
    }

    /// Whether a stream is the primary of its role.
    pub(crate) fn is_primary(&self, client: Client) -> bool {
        self.candidates.get(&client).is_some_and(|c| self.primary(&c.role) == Some(client))
    }

    /// The primaries of all roles, which receive packets, with the configurations of their roles.
    pub(crate) fn primaries(&self) -> impl Iterator<Item = (Client, Option<&RoleConfig>)> {
        let config = |role| self.configs.get(role).map(|(_, config)| &**config);
        self.highest.keys().filter_map(move |role| Some((self.primary(role)?, config(role))))
    }

    /// The configuration that a bid brings for its role.
    fn config_of(
        &self,
        name: &str,
        role: Option<&Role>,
    ) -> Result<Option<(prost_types::Any, Arc<RoleConfig>)>, Refusal> {
        let Some(any) = role.and_then(|role| role.config.as_ref()) else { return Ok(None) };
        if name.is_empty() {
            return Err(Refusal::invalid(
                "the default role may do everything: it has no configuration",
            ));
        }
        let config = RoleConfig::of(any)?;
        for (other, (_, theirs)) in self.configs.iter().filter(|(other, _)| *other != name) {
            if let Some(id) = config.conflict(theirs) {
                return Err(Refusal::invalid(format!(
                    "{id:#010x} is an object of the role `{other}`, too: it cannot be exclusive"
                )));
            }
        }
        Ok(Some((any.clone(), Arc::new(config))))
    }

    /// What a role may write and read.
    pub(crate) fn access(&self, role: &str) -> Access {
        let own = self.configs.get(role).map(|(_, config)| config.clone());
        let others = self.configs.iter().filter(|(other, _)| !role.is_empty() && *other != role);
        let others = others.map(|(_, (_, config))| config.clone()).collect();
        Access { own, others }
    }

    /// Checks that a role may set the pipeline.
    pub(crate) fn check_pusher(&self, role: &str) -> Result<(), Refusal> {
        match self.configs.get(role) {
            Some((_, config)) if !config.can_push_pipeline() => Err(Refusal::permission_denied(
                "the configuration of the controller's role does not let it set the program",
            )),
            _ => Ok(()),
        }
    }

    /// Checks that a request for a change comes from the primary of its role.
    pub(crate) fn check_writer(
        &self,
        device_id: u64,
        role: &str,
        id: Option<Uint128>,
    ) -> Result<(), Refusal> {
        self.check_device(device_id)?;
        // The default role is always known, others after a controller has used them.
        let known = role.is_empty()
            || self.highest.contains_key(role)
            || self.candidates.values().any(|candidate| candidate.role == role);
        if !known {
            return Err(Refusal::not_found(format!("no controller has had the role `{role}`")));
        }
        let primary = self.primary(role).and(self.highest.get(role).copied());
        if primary.is_some() && primary == id.map(election_id) {
            Ok(())
        } else {
            Err(Refusal::permission_denied("only the primary controller may change the switch"))
        }
    }

    pub(crate) fn check_device(&self, device_id: u64) -> Result<(), Refusal> {
        if device_id == self.device_id {
            return Ok(());
        }
        Err(Refusal::not_found(format!("this is device {}, not {device_id}", self.device_id)))
    }

    /// A message for every stream of a role, with the primary last.
    fn tell_all(&self, role: &str) -> Vec<Notification> {
        let primary = self.primary(role);
        let mut clients: Vec<Client> =
            self.candidates.iter().filter(|(_, c)| c.role == role).map(|(&c, _)| c).collect();
        clients.sort_by_key(|&client| primary == Some(client));
        clients.into_iter().map(|client| (client, self.notification(role, client))).collect()
    }

    /// A role in the form that a stream's controller uses.
    fn role(&self, name: &str, client: Client) -> Role {
        let config = self.configs.get(name).map(|(any, _)| any.clone());
        let numbered = self.candidates.get(&client).is_some_and(|candidate| candidate.numbered);
        #[allow(deprecated, reason = "older controllers want it back")]
        match name.parse() {
            Ok(id) if numbered => Role { id, name: String::new(), config },
            _ => Role { id: 0, name: name.to_owned(), config },
        }
    }

    fn notification(&self, role: &str, client: Client) -> MasterArbitrationUpdate {
        let (code, message) = match self.primary(role) {
            Some(primary) if primary == client => (Code::Ok, "you are primary"),
            Some(_) => (Code::AlreadyExists, "you are backup; there is a primary"),
            None => (Code::NotFound, "you are backup; there is no primary"),
        };
        MasterArbitrationUpdate {
            device_id: self.device_id,
            role: (!role.is_empty()).then(|| self.role(role, client)),
            election_id: self.highest.get(role).copied().map(uint128),
            status: Some(Status { code: code.into(), message: message.into(), details: vec![] }),
        }
    }
}

/// The name of a role in a request. Controllers of P4Runtime 1.2 and before number their roles; a
/// number is the name with these digits.
pub(crate) fn role_name(name: &str, number: u64) -> String {
    match number {
        1.. if name.is_empty() => number.to_string(),
        _ => name.to_owned(),
    }
}

/// The name of a bid's role, and whether the bid has a number instead.
fn role_of(role: Option<&Role>) -> Result<(String, bool), Refusal> {
    let Some(role) = role else { return Ok((String::new(), false)) };
    if role.name.len() > MAX_ROLE_NAME {
        return Err(Refusal::invalid(format!("a role's name has at most {MAX_ROLE_NAME} bytes")));
    }
    #[allow(deprecated, reason = "older controllers send it")]
    let number = role.id;
    Ok((role_name(&role.name, number), number != 0 && role.name.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICE: u64 = 7;

    fn bid(id: impl Into<Option<u128>>) -> MasterArbitrationUpdate {
        MasterArbitrationUpdate {
            device_id: DEVICE,
            election_id: id.into().map(uint128),
            ..Default::default()
        }
    }

    fn with_role(mut update: MasterArbitrationUpdate, name: &str) -> MasterArbitrationUpdate {
        update.role = Some(Role { name: name.into(), ..Default::default() });
        update
    }

    /// The notifications as stream, code, highest election id.
    fn told(notifications: &[Notification]) -> Vec<(Client, Code, Option<u128>)> {
        let one = |(client, update): &Notification| {
            let code = Code::try_from(update.status.as_ref().unwrap().code).unwrap();
            (*client, code, update.election_id.map(election_id))
        };
        notifications.iter().map(one).collect()
    }

    #[test]
    fn the_highest_election_id_wins_and_all_are_notified() {
        let mut a = Arbitration::new(DEVICE);
        assert_eq!(told(&a.bid(1, &bid(10)).unwrap()), [(1, Code::Ok, Some(10))]);
        assert_eq!(told(&a.bid(2, &bid(5)).unwrap()), [(2, Code::AlreadyExists, Some(10))]);
        assert_eq!(
            told(&a.bid(3, &bid(1 << 100)).unwrap()),
            [
                (1, Code::AlreadyExists, Some(1 << 100)),
                (2, Code::AlreadyExists, Some(1 << 100)),
                (3, Code::Ok, Some(1 << 100)),
            ]
        );
        assert!(a.is_primary(3) && !a.is_primary(1));
    }

    #[test]
    fn when_the_primary_leaves_no_backup_succeeds_automatically() {
        let mut a = Arbitration::new(DEVICE);
        a.bid(1, &bid(10)).unwrap();
        a.bid(2, &bid(5)).unwrap();
        assert_eq!(told(&a.leave(1)), [(2, Code::NotFound, Some(10))]);
        assert_eq!(a.primary(""), None);
        // 9 is less than the highest seen; 10 is enough.
        assert_eq!(told(&a.bid(2, &bid(9)).unwrap()), [(2, Code::NotFound, Some(10))]);
        assert_eq!(told(&a.bid(2, &bid(10)).unwrap()), [(2, Code::Ok, Some(10))]);
        assert!(a.leave(99).is_empty());
    }

    #[test]
    fn a_primary_can_step_down() {
        let mut a = Arbitration::new(DEVICE);
        a.bid(1, &bid(10)).unwrap();
        a.bid(2, &bid(8)).unwrap();
        assert_eq!(
            told(&a.bid(1, &bid(3)).unwrap()),
            [(1, Code::NotFound, Some(10)), (2, Code::NotFound, Some(10))]
        );
        assert_eq!(a.primary(""), None);
    }

    #[test]
    fn a_controller_without_election_id_stays_backup() {
        let mut a = Arbitration::new(DEVICE);
        assert_eq!(told(&a.bid(1, &bid(None)).unwrap()), [(1, Code::NotFound, None)]);
        assert_eq!(told(&a.bid(2, &bid(None)).unwrap()), [(2, Code::NotFound, None)]);
        a.check_writer(DEVICE, "", None).unwrap_err();
    }

    #[test]
    fn streams_that_break_the_rules_end() {
        let mut a = Arbitration::new(DEVICE);
        let other_device = MasterArbitrationUpdate { device_id: 8, ..bid(1) };
        assert_eq!(a.bid(1, &other_device).unwrap_err().code, Code::NotFound);
        a.bid(1, &bid(10)).unwrap();
        assert_eq!(a.bid(1, &other_device).unwrap_err().code, Code::FailedPrecondition);
        assert_eq!(a.bid(2, &bid(10)).unwrap_err().code, Code::InvalidArgument);
        let changed = with_role(bid(10), "other");
        assert_eq!(a.bid(1, &changed).unwrap_err().code, Code::FailedPrecondition);
        // Repeating the bid is a heartbeat.
        assert_eq!(told(&a.bid(1, &bid(10)).unwrap()), [(1, Code::Ok, Some(10))]);
    }

    #[test]
    fn roles_are_elections_of_their_own() {
        let mut a = Arbitration::new(DEVICE);
        a.bid(1, &bid(10)).unwrap();
        let told_other = a.bid(2, &with_role(bid(10), "metrics")).unwrap();
        assert_eq!(told(&told_other), [(2, Code::Ok, Some(10))]);
        assert_eq!(told_other[0].1.role.as_ref().unwrap().name, "metrics");
        assert_eq!(a.primaries().map(|(client, _)| client).collect::<Vec<_>>(), [1, 2]);
        let writer = |role: &str| a.check_writer(DEVICE, role, Some(uint128(10)));
        assert_eq!(writer("metrics"), Ok(()));
        assert_eq!(writer("unheard").map_err(|r| r.code), Err(Code::NotFound));
    }

    #[test]
    fn too_many_controllers_and_roles_are_refused() {
        let mut a = Arbitration::new(DEVICE);
        for client in 0..MAX_CLIENTS as u64 {
            a.bid(client, &bid(u128::from(client))).unwrap();
        }
        let refused = a.bid(1000, &bid(5000)).unwrap_err();
        assert_eq!(refused.code, Code::ResourceExhausted);
        assert!(a.is_primary(MAX_CLIENTS as u64 - 1), "nobody was deposed");
        a.bid(0, &bid(9999)).unwrap(); // existing streams are not affected
        for role in 1..MAX_ROLES as u64 {
            a.bid(1000 + role, &with_role(bid(1), &format!("role {role}"))).unwrap();
        }
        let refused = a.bid(2000, &with_role(bid(1), "one more")).unwrap_err();
        assert_eq!(refused.code, Code::ResourceExhausted);
        a.bid(2000, &with_role(bid(2), "role 1")).unwrap();
    }

    #[test]
    fn only_the_primarys_election_id_may_write() {
        let mut a = Arbitration::new(DEVICE);
        let writer = |a: &Arbitration, device, id: Option<u128>| {
            a.check_writer(device, "", id.map(uint128)).map_err(|r| r.code)
        };
        assert_eq!(writer(&a, DEVICE, Some(1)), Err(Code::PermissionDenied));
        a.bid(1, &bid(10)).unwrap();
        a.bid(2, &bid(5)).unwrap();
        assert_eq!(writer(&a, DEVICE, Some(10)), Ok(()));
        assert_eq!(writer(&a, DEVICE, Some(5)), Err(Code::PermissionDenied));
        assert_eq!(writer(&a, DEVICE, None), Err(Code::PermissionDenied));
        assert_eq!(writer(&a, 1, Some(10)), Err(Code::NotFound));
        a.leave(1);
        assert_eq!(writer(&a, DEVICE, Some(10)), Err(Code::PermissionDenied));
    }
}
