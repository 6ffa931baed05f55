//! All-reduce for the ranks of a group, as machine-learning frameworks want it: calls overlap, memory is
//! lent, and a failure names a rank.
//!
//! Ranks that are all on one host add [in memory](memory). Any other group is a job of Tributary. Its workers are
//! the group's [`Members`]: each is a rank, or the first rank of a host, whose ranks then add in memory before and
//! take the results from there. A worker takes part at the job's controller like any other. The first rank hosts the
//! job's [`GroupSwitch`]: an embedded switch and its controller, over UDP and without privileges. Or it has the job
//! [admitted](admission) at the controller of a network. Each worker has a [`Communicator`].
//!
//! | module | content |
//! | --- | --- |
//! | `group` | what every group does |
//! | [`memory`] | the ranks of a host, and what they do there beside sums |
//! | [`members`] | the ranks that each worker stands for |
//! | [`Collective`] | what ranks do beside sums that all get |
//! | [`communicator`] | groups with a network: the order of a rank's calls, and their results |
//! | [`agreement`] | what ranks tell each other before each sum: whether they call the same |
//! | `magnitudes` | what they tell each other about the magnitudes of their values |
//! | [`scales`] | the fixed-point scale of each fragment |
//! | `exchange` | collectives of which each rank gives or gets a part, through a network |
//! | `extras` | what is summed beside the values: what is below their units, NaN and infinity |
//! | `underflow` | values that become zero at this scale: a warning, or an error |
//! | `follower` | what the controller tells a rank |
//! | [`switch`] | the embedded switch |
//! | [`tunnels`] | how ranks reach it |
//! | [`admission`] | the job at a controller, and the ports of ranks in its network |
//! | [`description`] | what the first rank tells the others about either |
//! | [`settings`] | from a user's settings to a job |
//!
//! # Agreement
//!
//! Each call begins with a fragment of integers, in which each rank fills in its own place: the
//! operation, the number of elements and their type. The sum is a list of all ranks' places. So each rank knows
//! of each mistake of any rank. In the same way all learn the magnitudes of each block of values, in the same fragment
//! or in others, and choose the same [scale](scales) for each fragment of the values, which follow. If all values of
//! all ranks fit into the first fragment, too, they are in it as floats, and each rank adds them itself, in the order
//! of the ranks.
//!
//! # Runs
//!
//! A run of a job has a limited number of sequence numbers. When half of them are used, which all ranks
//! find after the same call, each rank waits for the results that it lacks, and tells the controller. When all have told,
//! another run begins, in which fragments are counted from zero. Calls that come meanwhile wait for it.
//!
//! # Failures
//!
//! A call whose values are not finite, or of which too many would become zero, fails at all ranks before any value is
//! sent if the settings do not allow that, and the group goes on. After any other error
//! the group has failed for good. Memory that was lent for a failed call has undefined contents.

pub mod admission;
pub mod agreement;
mod collective;
pub mod communicator;
pub mod description;
mod error;
mod exchange;
mod extras;
mod floats;
mod follower;
mod group;
mod magnitudes;
pub mod members;
pub mod memory;
mod meter;
mod metrics;
mod outcome;
pub mod scales;
pub mod settings;
pub mod switch;
pub mod tunnels;
mod underflow;
mod values;
mod work;

pub use admission::Station;
pub use collective::{Collective, Numbers, What};
pub use communicator::Communicator;
pub use description::Description;
pub use error::Error;
pub use floats::ElementType;
pub use group::{Counters, Group, Pending};
pub use members::Members;
pub use scales::Precision;
pub use settings::{Ranks, Settings, Threads};
pub use switch::GroupSwitch;
pub use values::Values;
pub use work::Call;
