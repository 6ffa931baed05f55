//! The native part of the Python package `tributary`: [`tributary_collective`] for Python.
//!
//! `python/python/tributary/_native.pyi` documents the classes. Whatever takes time runs without the
//! interpreter's lock.

use std::mem::ManuallyDrop;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, ToSocketAddrs as _};
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
use tributary_collective::{Call, Communicator, Description, ElementType, Group, Pending, Values};
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

fn ipv4(text: &str) -> PyResult<Ipv4Addr> {
    text.parse().map_err(|_| invalid(format!("{text:?} is not an IPv4 address")))
}

#[pyclass(name = "Endpoint")]
struct PyEndpoint {
    /// Until a communicator takes them.
    tunnels: Option<Vec<Tunnel>>,
    addresses: Vec<SocketAddrV4>,
}

#[pymethods]
impl PyEndpoint {
    #[new]
    fn new(address: &str, sockets: usize) -> PyResult<Self> {
        let tunnels = group::tunnels::endpoint(ipv4(address)?, sockets).map_err(other)?;
        let addresses = group::tunnels::addresses(&tunnels).map_err(other)?;
        Ok(Self { tunnels: Some(tunnels), addresses })
    }

    #[getter]
    fn addresses(&self) -> Vec<String> {
        self.addresses.iter().map(SocketAddrV4::to_string).collect()
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
    fn new(settings: &str, ranks: usize, ranks_here: usize, timeout: f64) -> PyResult<Self> {
        let ranks = group::Ranks { all: ranks, here: ranks_here };
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
        endpoints: Vec<Vec<String>>,
    ) -> PyResult<Self> {
        let parse = |endpoint: &String| {
            endpoint
                .parse()
                .map_err(|_| invalid(format!("{endpoint:?} is not an address and port")))
        };
        let parse_all = |rank: &Vec<String>| rank.iter().map(parse).collect();
        let endpoints =
            endpoints.iter().map(parse_all).collect::<PyResult<Vec<Vec<SocketAddrV4>>>>()?;
        let address = ipv4(address)?;
        let settings = plan.settings.clone();
        let start = || group::GroupSwitch::start(settings, address, &endpoints).map_err(other);
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
fn given_job(settings: &str, ranks: usize) -> PyResult<Option<String>> {
    let given = group::admission::given(&variable, settings, ranks).map_err(other)?;
    Ok(given.map(|given| given.to_text()))
}

/// Has a job admitted for ranks on these hosts. Returns its description.
#[pyfunction]
fn admit(
    py: Python<'_>,
    station: PyRef<'_, PyStation>,
    settings: &str,
    name: &str,
    hosts: Vec<String>,
) -> PyResult<String> {
    let station = &station.0;
    let admit = || group::admission::admit(station, settings, name, &hosts);
    Ok(py.detach(admit).map_err(other)?.to_text())
}

/// The memory of a group whose ranks are all on one host.
#[pyclass(name = "Memory")]
struct PyMemory {
    /// Until a communicator takes it.
    memory: Option<Memory>,
    ranks: usize,
    description: String,
}

#[pymethods]
impl PyMemory {
    /// `None` if the settings ask for a network.
    #[staticmethod]
    fn open(settings: &str, ranks: usize) -> PyResult<Option<Self>> {
        let Some(settings) = group::settings::in_memory(settings).map_err(other)? else {
            return Ok(None);
        };
        let memory = Memory::open(ranks, settings)
            .map_err(|error| PyOSError::new_err(format!("{error:#}")))?;
        let description = memory.description();
        Ok(Some(Self { memory: Some(memory), ranks, description }))
    }

    #[getter]
    fn description(&self) -> &str {
        &self.description
    }
}

#[pyclass(name = "Communicator")]
struct PyCommunicator {
    communicator: Own<Box<dyn Group>>,
    controllers: Vec<SocketAddr>,
    /// The name of an abstract Unix socket.
    socket: Option<String>,
    /// Whether ranks agree before collectives of another backend.
    checks: bool,
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
        let communicator: Own<Box<dyn Group>> = Own::new(Box::new(py.detach(join)?));
        let controllers = match description.fabric {
            group::description::Fabric::Embedded { controller, .. } => vec![controller],
            group::description::Fabric::External => Vec::new(),
        };
        let checks = description.group.check;
        Ok(Self { communicator, controllers, socket: None, checks })
    }

    #[staticmethod]
    fn first(py: Python<'_>, memory: &mut PyMemory, timeout: f64) -> PyResult<Self> {
        let (timeout, ranks) = (seconds(timeout)?, memory.ranks);
        let memory = memory.memory.take();
        let memory = memory.ok_or_else(|| invalid("the memory is in use already".into()))?;
        let join = || memory::Communicator::first(memory, ranks, timeout).map_err(other);
        Ok(Self::sharing(py.detach(join)?))
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
        Ok(Self::sharing(py.detach(join)?))
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
        let checks = description.group.check;
        let communicator: Own<Box<dyn Group>> = Own::new(Box::new(communicator));
        Ok(Self { communicator, controllers, socket: None, checks })
    }

    #[getter]
    fn checks(&self) -> bool {
        self.checks
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

    #[pyo3(signature = (address, elements, dtype, *, average, layer, owner))]
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
    ) -> PyResult<Handle> {
        let element = ElementType::named(dtype);
        let element =
            element.ok_or_else(|| invalid(format!("cannot sum numbers of type {dtype}")))?;
        let keeper: Keeper = Arc::new(owner);
        let values = match element {
            ElementType::F32 => Values::Single(lend(address, elements, keeper)?),
            short => Values::Short(lend(address, elements, keeper)?, short),
        };
        Ok(Handle(py.detach(|| self.communicator.call(Call::Reduce { values, average, layer }))))
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

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.communicator.close());
    }

    fn abort(&self, py: Python<'_>) {
        py.detach(|| self.communicator.abort());
    }
}

impl PyCommunicator {
    fn sharing(communicator: memory::Communicator) -> Self {
        let socket = Some(communicator.socket().to_owned());
        let checks = communicator.settings().check;
        let communicator: Own<Box<dyn Group>> = Own::new(Box::new(communicator));
        Self { communicator, controllers: Vec::new(), socket, checks }
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
    module.add_class::<PyCommunicator>()?;
    module.add_class::<Handle>()
}
