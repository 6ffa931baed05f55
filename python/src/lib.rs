//! The native part of the Python package `tributary`: [`tributary_collective`] for Python.
//!
//! `python/python/tributary/_native.pyi` documents the classes. Whatever takes time runs without the
//! interpreter's lock.

use std::fmt::Display;
use std::mem::ManuallyDrop;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pyo3::create_exception;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyRuntimeWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;
use tributary_collective as group;
use tributary_collective::memory::{self, Memory};
use tributary_collective::{
    Call, Collective, Communicator, Description, ElementType, Group, Members, Numbers, Pending,
    Values, What,
};
use tributary_netio::udp::Tunnel;
use tributary_protocol::buffer::{Buffer, Keeper};

create_exception!(
    tributary,
    Error,
    PyRuntimeError,
    "The base of the errors that Tributary raises."
);
create_exception!(tributary, PeerLostError, Error, "A rank has died or left.");
create_exception!(tributary, MismatchError, Error, "The ranks did not call the same.");
create_exception!(tributary, NotFiniteError, Error, "An input holds NaN or infinity.");
create_exception!(tributary, UnderflowError, Error, "Too many values would become zero.");
create_exception!(
    tributary,
    UnderflowWarning,
    PyRuntimeWarning,
    "Many values have become zero beside a greater one."
);
create_exception!(tributary, TimeoutError, Error, "Some ranks have not called in time.");

/// Time between two looks for signals.
const PATIENCE: Duration = Duration::from_millis(50);

fn exception(error: &group::Error) -> PyErr {
    let text = error.to_string();
    match error {
        group::Error::PeerLost { .. } => PeerLostError::new_err(text),
        group::Error::Mismatch { .. } => MismatchError::new_err(text),
        group::Error::NotFinite { .. } => NotFiniteError::new_err(text),
        group::Error::Underflow { .. } => UnderflowError::new_err(text),
        group::Error::TimedOut { .. } => TimeoutError::new_err(text),
        group::Error::Failed(_) | group::Error::Closed => Error::new_err(text),
    }
}

/// Any other error, as one line.
fn other(error: impl Into<group::Error>) -> PyErr {
    exception(&error.into())
}

fn invalid(text: String) -> PyErr {
    PyValueError::new_err(text)
}

/// What a process owns, and its forks do not. It can have threads that wait for the interpreter's lock when
/// they end.
struct Own<T: Send> {
    value: ManuallyDrop<T>,
    process: u32,
}

impl<T: Send> Own<T> {
    fn new(value: T) -> Self {
        Self { value: ManuallyDrop::new(value), process: std::process::id() }
    }
}

impl<T: Send> Deref for Own<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Send> DerefMut for Own<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T: Send> Drop for Own<T> {
    fn drop(&mut self) {
        // The threads are in the process that made it, and so are the ends of connections.
        if self.process != std::process::id() {
            return;
        }
        // SAFETY: it is not used afterwards.
        let value = unsafe { ManuallyDrop::take(&mut self.value) };
        let mut value = Some(value);
        Python::try_attach(|py| {
            let value = value.take();
            py.detach(move || drop(value));
        });
    }
}

fn ip(text: &str) -> PyResult<IpAddr> {
    text.parse().map_err(|_| invalid(format!("{text:?} is not an IP address")))
}

#[pyclass(name = "Endpoint")]
struct PyEndpoint {
    /// Until a communicator takes them.
    tunnels: Option<Vec<Tunnel>>,
    addresses: Vec<SocketAddr>,
}

#[pymethods]
impl PyEndpoint {
    #[new]
    fn new(address: &str, sockets: usize) -> PyResult<Self> {
        let tunnels = group::tunnels::endpoint(ip(address)?, sockets).map_err(other)?;
        let addresses = group::tunnels::addresses(&tunnels).map_err(other)?;
        Ok(Self { tunnels: Some(tunnels), addresses })
    }

    #[getter]
    fn addresses(&self) -> Vec<String> {
        self.addresses.iter().map(SocketAddr::to_string).collect()
    }
}

#[pyclass(name = "Plan")]
struct PyPlan {
    settings: group::Settings,
    sockets: usize,
}

#[pymethods]
impl PyPlan {
    #[new]
    fn new(
        settings: &str,
        members: usize,
        members_here: usize,
        ranks_here: usize,
        timeout: f64,
    ) -> PyResult<Self> {
        let ranks = group::Ranks { all: members, here: members_here, sharing: ranks_here };
        let settings = group::Settings::complete(settings, ranks, seconds(timeout)?);
        let settings = settings.map_err(other)?;
        let sockets = settings.threads().map_err(other)?.tunnels();
        Ok(Self { settings, sockets })
    }

    #[getter]
    fn sockets(&self) -> usize {
        self.sockets
    }
}

#[pyclass(name = "Switch")]
struct PySwitch {
    switch: Own<Mutex<group::GroupSwitch>>,
    description: String,
}

#[pymethods]
impl PySwitch {
    #[new]
    fn new(
        py: Python<'_>,
        plan: &PyPlan,
        address: &str,
        members: Vec<Vec<u16>>,
        endpoints: Vec<Vec<String>>,
    ) -> PyResult<Self> {
        let members = Members::new(members).map_err(other)?;
        let parse = |endpoint: &String| {
            endpoint
                .parse()
                .map_err(|_| invalid(format!("{endpoint:?} is not an address and port")))
        };
        let parse_all = |rank: &Vec<String>| rank.iter().map(parse).collect();
        let endpoints =
            endpoints.iter().map(parse_all).collect::<PyResult<Vec<Vec<SocketAddr>>>>()?;
        let address = ip(address)?;
        let settings = plan.settings.clone();
        let start =
            || group::GroupSwitch::start(settings, &members, address, &endpoints).map_err(other);
        let switch = py.detach(start)?;
        let description = switch.description().to_text();
        Ok(Self { switch: Own::new(Mutex::new(switch)), description })
    }

    #[getter]
    fn description(&self) -> &str {
        &self.description
    }

    fn close(&self, py: Python<'_>) -> PyResult<u32> {
        py.detach(|| self.lock().close()).map_err(other)
    }
}

impl PySwitch {
    fn lock(&self) -> MutexGuard<'_, group::GroupSwitch> {
        self.switch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The environment, as this process has it now.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[pyclass(name = "Station")]
struct PyStation(group::Station);

#[pymethods]
impl PyStation {
    #[new]
    fn new(py: Python<'_>) -> PyResult<Self> {
        py.detach(|| group::Station::find(&variable)).map(Self).map_err(other)
    }

    #[getter]
    fn host(&self) -> &str {
        self.0.host()
    }
}

/// The description of the job that was admitted for this group's ranks, if there is one.
#[pyfunction]
fn given_job(settings: &str, members: Vec<Vec<u16>>) -> PyResult<Option<String>> {
    let members = Members::new(members).map_err(other)?;
    let given = group::admission::given(&variable, settings, &members).map_err(other)?;
    Ok(given.map(|given| given.to_text()))
}

/// Whether each rank is to be a worker of its own.
#[pyfunction]
fn is_each_alone(settings: &str) -> PyResult<bool> {
    group::settings::is_each_alone(settings).map_err(other)
}

/// Has a job admitted for members on these hosts. Returns its description.
#[pyfunction]
fn admit(
    py: Python<'_>,
    station: PyRef<'_, PyStation>,
    settings: &str,
    name: &str,
    members: Vec<Vec<u16>>,
    hosts: Vec<String>,
) -> PyResult<String> {
    let (station, members) = (&station.0, Members::new(members).map_err(other)?);
    let admit = || group::admission::admit(station, settings, name, &members, &hosts);
    Ok(py.detach(admit).map_err(other)?.to_text())
}

/// The memory of the ranks of a host.
#[pyclass(name = "Memory")]
struct PyMemory {
    /// Until a communicator takes it.
    memory: Option<Memory>,
    ranks: usize,
    /// Those of the group of hosts, if there are several.
    controllers: Vec<SocketAddr>,
    description: String,
}

#[pymethods]
impl PyMemory {
    /// `None` if the settings ask for a network. Those of a job `at_controller` do not.
    #[staticmethod]
    fn open(settings: &str, ranks: usize, at_controller: bool) -> PyResult<Option<Self>> {
        let settings = match at_controller {
            true => group::settings::at_controller(settings).map(Some),
            false => group::settings::in_memory(settings),
        };
        let Some(settings) = settings.map_err(other)? else { return Ok(None) };
        let memory = Memory::open(ranks, settings).map_err(os_error)?;
        Ok(Some(Self::new(memory, ranks, Vec::new())))
    }

    /// Of the ranks of a member.
    #[staticmethod]
    fn of_member(above: PyRef<'_, PyCommunicator>, ranks: usize) -> PyResult<Self> {
        let network = above.network.as_deref().map(Arc::clone);
        let network = network.ok_or_else(|| invalid("the group has no network".into()))?;
        let memory = Memory::of_member(network).map_err(os_error)?;
        Ok(Self::new(memory, ranks, above.controllers.clone()))
    }

    #[getter]
    fn description(&self) -> &str {
        &self.description
    }
}

impl PyMemory {
    fn new(memory: Memory, ranks: usize, controllers: Vec<SocketAddr>) -> Self {
        let description = memory.description();
        Self { memory: Some(memory), ranks, controllers, description }
    }
}

fn os_error(error: impl Display) -> PyErr {
    PyOSError::new_err(format!("{error:#}"))
}

#[pyclass(name = "Communicator")]
struct PyCommunicator {
    communicator: Own<Arc<dyn Group>>,
    /// The same, if it is a worker.
    network: Option<Own<Arc<Communicator>>>,
    /// The same, if all ranks of the group share its memory.
    memory: Option<Own<Arc<memory::Communicator>>>,
    controllers: Vec<SocketAddr>,
    /// The name of an abstract Unix socket.
    socket: Option<String>,
    settings: group::settings::Group,
}

#[pymethods]
impl PyCommunicator {
    #[new]
    #[pyo3(signature = (endpoint, description, rank, switch=None))]
    fn new(
        py: Python<'_>,
        endpoint: &mut PyEndpoint,
        description: &str,
        rank: u16,
        switch: Option<PyRef<'_, PySwitch>>,
    ) -> PyResult<Self> {
        let tunnels = endpoint.tunnels.take();
        let tunnels = tunnels.ok_or_else(|| invalid("the endpoint is in use already".into()))?;
        let description = Description::parse(description).map_err(other)?;
        let switch = switch.as_deref();
        let join = || {
            let mut switch = switch.map(PySwitch::lock);
            Communicator::join(&description, rank, tunnels, switch.as_deref_mut()).map_err(other)
        };
        let communicator = py.detach(join)?;
        let controllers = match description.fabric {
            group::description::Fabric::Embedded { controller, .. } => vec![controller],
            group::description::Fabric::External => Vec::new(),
        };
        Ok(Self::worker(communicator, controllers))
    }

    #[staticmethod]
    fn first(py: Python<'_>, shared: &mut PyMemory, timeout: f64) -> PyResult<Self> {
        let (timeout, ranks) = (seconds(timeout)?, shared.ranks);
        let memory = shared.memory.take();
        let memory = memory.ok_or_else(|| invalid("the memory is in use already".into()))?;
        let join = || memory::Communicator::first(memory, ranks, timeout).map_err(other);
        let controllers = std::mem::take(&mut shared.controllers);
        Ok(Self::sharing(py.detach(join)?, controllers))
    }

    #[staticmethod]
    fn in_memory(
        py: Python<'_>,
        description: &str,
        rank: usize,
        ranks: usize,
        timeout: f64,
    ) -> PyResult<Self> {
        let timeout = seconds(timeout)?;
        let join = || memory::Communicator::join(description, rank, ranks, timeout).map_err(other);
        Ok(Self::sharing(py.detach(join)?, Vec::new()))
    }

    #[staticmethod]
    fn at(
        py: Python<'_>,
        station: PyRef<'_, PyStation>,
        description: &str,
        rank: u16,
        timeout: f64,
    ) -> PyResult<Self> {
        let timeout = seconds(timeout)?;
        let description = Description::parse(description).map_err(other)?;
        let station = &station.0;
        let join = || {
            let joined = Communicator::join_at(&description, rank, station, timeout);
            let at = station.controller().to_string();
            // A Unix socket has none.
            let controllers = at.to_socket_addrs().map(Iterator::collect).unwrap_or_default();
            Ok::<_, PyErr>((joined.map_err(other)?, controllers))
        };
        let (communicator, controllers) = py.detach(join)?;
        Ok(Self::worker(communicator, controllers))
    }

    #[getter]
    fn checks(&self) -> bool {
        self.settings.check
    }

    #[getter]
    fn refuses(&self) -> bool {
        self.settings.nonfinite == group::settings::NonFinite::Raise
    }

    #[getter]
    fn has_all_ranks(&self) -> bool {
        self.memory.is_some()
    }

    #[getter]
    fn exchanges_parts(&self) -> bool {
        let by_network = || self.network.as_ref().is_some_and(|network| network.exchanges_parts());
        self.memory.is_some() || by_network()
    }

    #[getter]
    fn peers(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        let controllers = self
            .controllers
            .iter()
            .map(|at| Ok((at.ip().to_string(), at.port()).into_pyobject(py)?.into_any().unbind()));
        let name = self.socket.iter().map(|name| {
            // As Python names an abstract socket.
            Ok(PyBytes::new(py, format!("\0{name}").as_bytes()).into_any().unbind())
        });
        controllers.chain(name).collect()
    }

    #[pyo3(signature = (address, elements, dtype, *, average, layer, owner, by_devices=false))]
    #[expect(clippy::too_many_arguments, reason = "they are named in Python")]
    fn all_reduce(
        &self,
        py: Python<'_>,
        address: usize,
        elements: usize,
        dtype: &str,
        average: bool,
        layer: Option<(usize, usize)>,
        owner: Py<PyAny>,
        by_devices: bool,
    ) -> PyResult<Handle> {
        let keeper: Keeper = Arc::new(owner);
        let values = match element(dtype)? {
            ElementType::F32 => Values::Single(lend(address, elements, keeper)?),
            short => Values::Short(lend(address, elements, keeper)?, short),
        };
        let call = match by_devices {
            true => Call::ReduceHosts { values, average, layer },
            false => Call::Reduce { values, average, layer },
        };
        Ok(Handle(py.detach(|| self.communicator.call(call))))
    }

    #[pyo3(signature = (own, all, size, claim, *, owner))]
    fn all_gather(
        &self,
        py: Python<'_>,
        own: usize,
        all: (usize, usize),
        size: usize,
        claim: (String, u64, String),
        owner: Py<PyAny>,
    ) -> PyResult<Handle> {
        let (start, length) = all;
        let keeper: Keeper = Arc::new(owner);
        let own = match own {
            at if at == start + self.rank()? * size => None,
            at if overlap((at, size), all) => Some(copied(at, size)?),
            at => Some(lend(at, size, Arc::clone(&keeper))?),
        };
        let all = lend(start, length, keeper)?;
        self.begin(py, claim, What::AllGather { own, all })
    }

    #[pyo3(signature = (address, size, root, claim, *, owner))]
    fn broadcast(
        &self,
        py: Python<'_>,
        address: usize,
        size: usize,
        root: usize,
        claim: (String, u64, String),
        owner: Py<PyAny>,
    ) -> PyResult<Handle> {
        let bytes = lend(address, size, Arc::new(owner))?;
        self.begin(py, claim, What::Broadcast { bytes, root })
    }

    #[pyo3(signature = (values, own, dtype, claim, *, average, owner))]
    #[expect(clippy::too_many_arguments, reason = "they are named in Python")]
    fn reduce_scatter(
        &self,
        py: Python<'_>,
        values: (usize, usize),
        own: (usize, usize),
        dtype: &str,
        claim: (String, u64, String),
        average: bool,
        owner: Py<PyAny>,
    ) -> PyResult<Handle> {
        let keeper: Keeper = Arc::new(owner);
        let element = element(dtype)?;
        let width = if element == ElementType::F32 { 4 } else { 2 };
        let bytes = |(at, elements): (usize, usize)| (at, elements * width);
        let is_copied = overlap(bytes(values), bytes(own));
        let lend_all = |(at, elements): (usize, usize), is_copied: bool| {
            Ok::<_, PyErr>(match (element, is_copied) {
                (ElementType::F32, true) => Values::Single(copied(at, elements)?),
                (ElementType::F32, false) => {
                    Values::Single(lend(at, elements, Arc::clone(&keeper))?)
                }
                (short, true) => Values::Short(copied(at, elements)?, short),
                (short, false) => Values::Short(lend(at, elements, Arc::clone(&keeper))?, short),
            })
        };
        let (values, own) = (lend_all(values, is_copied)?, lend_all(own, false)?);
        self.begin(py, claim, What::ReduceScatter { values, own, average })
    }

    #[pyo3(signature = (address, elements, dtype, claim, *, owner))]
    fn sum(
        &self,
        py: Python<'_>,
        address: usize,
        elements: usize,
        dtype: &str,
        claim: (String, u64, String),
        owner: Py<PyAny>,
    ) -> PyResult<Handle> {
        let keeper: Keeper = Arc::new(owner);
        let numbers = match dtype {
            "float64" => Numbers::F64(lend(address, elements, keeper)?),
            "int64" => Numbers::I64(lend(address, elements, keeper)?),
            "int32" => Numbers::I32(lend(address, elements, keeper)?),
            _ => return Err(invalid(format!("cannot sum numbers of type {dtype}"))),
        };
        self.begin(py, claim, What::Sum(numbers))
    }

    fn announce(&self, py: Python<'_>, operation: String, elements: u64, dtype: String) -> Handle {
        let call = Call::Announce { operation, elements, element: dtype };
        Handle(py.detach(|| self.communicator.call(call)))
    }

    fn failure(&self) -> Handle {
        Handle(self.communicator.failure())
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counters = py.detach(|| self.communicator.counters());
        let worker = counters.worker;
        let entries = [
            ("calls", counters.begun),
            ("done", counters.done),
            ("values", counters.values),
            ("runs", counters.runs),
            ("packets_sent", worker.sent),
            ("packets_resent", worker.resent),
            ("results", worker.results),
            ("timeouts", worker.timeouts),
            ("overflow_packets", worker.overflow_packets),
            ("values_nonzero", worker.rounding.values),
            ("values_zeroed", worker.rounding.zeroed),
            ("values_imprecise", worker.rounding.imprecise),
            ("calls_underflowed", counters.underflows),
        ];
        let dict = PyDict::new(py);
        entries.into_iter().try_for_each(|(name, count)| dict.set_item(name, count))?;
        Ok(dict)
    }

    fn set_timeout(&self, timeout: f64) -> PyResult<()> {
        self.communicator.set_timeout(seconds(timeout)?);
        Ok(())
    }

    fn set_progress(&self, step: u64, of: u64) {
        self.communicator.set_progress(step, of);
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.communicator.close());
    }

    fn abort(&self, py: Python<'_>) {
        py.detach(|| self.communicator.abort());
    }
}

fn element(dtype: &str) -> PyResult<ElementType> {
    ElementType::named(dtype).ok_or_else(|| invalid(format!("cannot sum numbers of type {dtype}")))
}

/// Whether two pieces of memory, each an address and a length, share any.
fn overlap((a, a_length): (usize, usize), (b, b_length): (usize, usize)) -> bool {
    a < b.saturating_add(b_length) && b < a.saturating_add(a_length)
}

/// A copy of a caller's numbers.
fn copied<T: Copy + Send + Sync + 'static>(address: usize, count: usize) -> PyResult<Buffer<T>> {
    Ok(lend::<T>(address, count, Arc::new(()))?.to_vec().into())
}

impl PyCommunicator {
    fn begin(&self, py: Python<'_>, claim: (String, u64, String), what: What) -> PyResult<Handle> {
        let collective = Collective { claim, what };
        let begun = match (&self.memory, &self.network) {
            (Some(memory), _) => Ok(py.detach(|| memory.begin(collective))),
            (None, Some(network)) => py.detach(|| network.begin_collective(collective)),
            (None, None) => return Err(no_collectives()),
        };
        begun.map(Handle).map_err(|error| exception(&error))
    }

    /// This rank, in a group that carries out collectives.
    fn rank(&self) -> PyResult<usize> {
        let of_memory = self.memory.as_ref().map(|memory| memory.rank());
        let of_network = self.network.as_ref().map(|network| network.member());
        of_memory.or(of_network).ok_or_else(no_collectives)
    }

    fn worker(communicator: Communicator, controllers: Vec<SocketAddr>) -> Self {
        let (settings, worker) = (communicator.settings().clone(), Arc::new(communicator));
        let communicator: Own<Arc<dyn Group>> = Own::new(Arc::clone(&worker) as _);
        let network = Some(Own::new(worker));
        Self { communicator, network, memory: None, controllers, socket: None, settings }
    }

    fn sharing(communicator: memory::Communicator, controllers: Vec<SocketAddr>) -> Self {
        let socket = Some(communicator.socket().to_owned());
        let settings = communicator.settings().clone();
        let shared = Arc::new(communicator);
        let memory = shared.has_all_ranks().then(|| Own::new(Arc::clone(&shared)));
        let communicator: Own<Arc<dyn Group>> = Own::new(shared);
        Self { communicator, network: None, memory, controllers, socket, settings }
    }
}

#[pyclass]
struct Handle(Pending);

#[pymethods]
impl Handle {
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let deadline = timeout.map(seconds).transpose()?.map(|timeout| Instant::now() + timeout);
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let patience = left.map_or(PATIENCE, |left| left.min(PATIENCE));
            if let Some(result) = py.detach(|| self.0.wait(patience)) {
                return result.map_err(|error| exception(&error));
            }
            py.check_signals()?;
            if left.is_some_and(|left| left.is_zero()) {
                return Err(exception(&py.detach(|| self.0.time_out())));
            }
        }
    }

    fn warning(&self) -> Option<&str> {
        self.0.warning()
    }

    fn done(&self) -> bool {
        self.0.result().is_some()
    }

    fn add_done_callback(&self, py: Python<'_>, callback: Py<PyAny>) {
        // After the end of the group the callback is called here, and takes the interpreter's lock.
        py.detach(|| {
            self.0.on_done(move |result| {
                // The interpreter may be ending.
                Python::try_attach(|py| {
                    let error = result.err().map(|error| exception(&error));
                    if let Err(raised) = callback.call1(py, (error,)) {
                        raised.write_unraisable(py, Some(callback.bind(py)));
                    }
                });
            });
        });
    }
}

fn no_collectives() -> PyErr {
    invalid("the group leaves collectives to another backend".into())
}

/// Numbers of a tensor, which `keeper` keeps.
fn lend<T: Copy + Send + Sync + 'static>(
    address: usize,
    elements: usize,
    keeper: Keeper,
) -> PyResult<Buffer<T>> {
    if elements == 0 {
        return Ok(Vec::new().into());
    }
    let start = NonNull::new(address as *mut T).filter(|start| start.is_aligned());
    let start =
        start.ok_or_else(|| invalid(format!("no numbers can be at address {address:#x}")))?;
    // SAFETY: the caller, a module of this package, passes memory of a tensor of this type and number of
    // elements, and the tensor as the keeper. Users of collectives must not touch it until it is done.
    Ok(unsafe { Buffer::lent(start, elements, keeper) })
}

fn seconds(seconds: f64) -> PyResult<Duration> {
    // Longer waits are as good as no limit.
    let limited = seconds.min(1e9);
    Duration::try_from_secs_f64(limited).map_err(|_| invalid(format!("{seconds} s is not a time")))
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    if let Some(filter) =
        variable("TRIBUTARY_LOG").and_then(|levels| levels.parse::<Targets>().ok())
    {
        let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_filter(filter);
        // Another package may have set up a log.
        drop(tracing_subscriber::registry().with(log).try_init());
    }
    let py = module.py();
    module.add("Error", py.get_type::<Error>())?;
    module.add("PeerLostError", py.get_type::<PeerLostError>())?;
    module.add("MismatchError", py.get_type::<MismatchError>())?;
    module.add("NotFiniteError", py.get_type::<NotFiniteError>())?;
    module.add("UnderflowError", py.get_type::<UnderflowError>())?;
    module.add("UnderflowWarning", py.get_type::<UnderflowWarning>())?;
    module.add("TimeoutError", py.get_type::<TimeoutError>())?;
    module.add_class::<PyEndpoint>()?;
    module.add_class::<PyPlan>()?;
    module.add_class::<PyMemory>()?;
    module.add_class::<PySwitch>()?;
    module.add_class::<PyStation>()?;
    module.add_function(wrap_pyfunction!(admit, module)?)?;
    module.add_function(wrap_pyfunction!(given_job, module)?)?;
    module.add_function(wrap_pyfunction!(is_each_alone, module)?)?;
    module.add_class::<PyCommunicator>()?;
    module.add_class::<Handle>()
}
