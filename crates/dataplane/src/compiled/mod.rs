//! Machine code for a program's operations, by Cranelift.
//!
//! The flat operations of [`crate::code`] become functions that work on the same packet state,
//! tables and registers as the interpreter, so a pipeline may switch between both after any block.
//! Frequent operations are translated (`translate`, `wire`, `apply`); the interpreter executes
//! others one at a time (`context`).
//!
//! The translation checks every slot and every register that the code accesses (`bounds`). The only
//! unsafe code is in `context`, which enters the machine code and is called back from it, and in
//! `runs`, which has loops for some processors.

mod ahead;
mod apply;
mod bounds;
mod checksum;
#[allow(unsafe_code, reason = "enters machine code, and is called by it")]
mod context;
#[allow(unsafe_code, reason = "calls what is compiled for this very processor")]
mod runs;
mod translate;
mod wire;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use cranelift_codegen::ir::Endianness;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::FunctionBuilderContext;
use cranelift_jit::{ArenaMemoryProvider, JITBuilder, JITModule};
use cranelift_module::{Module, default_libcall_names};

pub(crate) use self::context::Compiled;
use self::translate::Functions;
use crate::code::Code;
use crate::externs::register::RegisterMap;
use crate::store::Store;
use crate::tables::{FixedTable, Table};

/// The execution engine of a program. All produce the same packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum EngineKind {
    /// The interpreter at first, then, after enough traffic, machine code compiled by another
    /// thread. If another pipeline of the process has it already, or it is [kept](MachineCode), machine
    /// code at once.
    #[default]
    Automatic,
    /// The interpreter only.
    Interpreter,
    /// Machine code from the first packet on. The interpreter on unsupported processors.
    Compiled,
}

impl std::fmt::Display for EngineKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Automatic => "automatic",
            Self::Interpreter => "interpreter",
            Self::Compiled => "compiled",
        })
    }
}

/// Number of packets before a program is compiled.
const ENOUGH: u32 = 512;

/// The input of the compiler.
#[derive(PartialEq, Debug)]
pub(crate) struct Plan {
    code: Arc<Code>,
    registers: RegisterMap,
    /// By table: its entries, if they never change.
    fixed: Vec<Option<FixedTable>>,
}

impl Plan {
    fn new(code: Arc<Code>, store: &Store) -> Self {
        let fixed = store.tables.iter().map(Table::fixed).collect();
        Self { code, registers: store.registers.map(), fixed }
    }
}

/// A program that engines run, and its machine code once there is any. All engines of a process that run
/// the same program share it, so that it is compiled once.
#[derive(Debug)]
struct Shared {
    plan: Plan,
    compiled: OnceLock<Option<Compiled>>,
    /// Held by the thread that compiles.
    compiling: Mutex<()>,
    /// Whether a thread compiles, or has compiled.
    started: AtomicBool,
}

/// Keeps a program's machine code, also if it is not translated yet. While a value exists, new engines of the
/// process for the same program use it.
#[derive(Clone, Debug)]
pub struct MachineCode {
    _shared: Arc<Shared>,
}

/// The programs that engines run at the moment, and those whose machine code is kept.
static PROGRAMS: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// What other engines share that have the same program, or something new.
    fn find(plan: Plan) -> Arc<Self> {
        let mut programs = lock(&PROGRAMS);
        let mut found = None;
        programs.retain(|program| {
            let Some(program) = program.upgrade() else { return false };
            if program.plan == plan {
                found = Some(program);
            }
            true
        });
        found.unwrap_or_else(|| {
            let (compiled, compiling, started) = Default::default();
            let new = Arc::new(Self { plan, compiled, compiling, started });
            programs.push(Arc::downgrade(&new));
            new
        })
    }

    /// Compiles the program, unless that is done. The compiler gives up once `wanted` returns false, which
    /// it asks before each function.
    fn compile(&self, wanted: &dyn Fn() -> bool) {
        let _one_at_a_time = lock(&self.compiling);
        if self.compiled.get().is_some() {
            return;
        }
        tracing::debug!("translating a P4 program to machine code");
        let compiled = match translate(&self.plan, wanted) {
            Ok(compiled) => Some(compiled),
            Err(Refusal::Unwanted) => return,
            Err(refusal) => {
                tracing::warn!("the program stays interpreted: {refusal}");
                None
            }
        };
        // It is set once, behind the lock.
        drop(self.compiled.set(compiled));
    }

    /// Compiles the program while there is an engine that runs it, or its machine code is kept.
    fn compile_for_engines(self: Arc<Self>) {
        // Without others, the program was replaced or has ended.
        let wanted = || Arc::strong_count(&self) > 1;
        loop {
            self.compile(&wanted);
            // No engine can find it meanwhile.
            let mut programs = lock(&PROGRAMS);
            if self.compiled.get().is_some() {
                return;
            }
            if wanted() {
                continue;
            }
            programs.retain(|program| !std::ptr::eq(program.as_ptr(), &raw const *self));
            return;
        }
    }
}

/// The machine code of an engine, or its future.
#[derive(Debug, Default)]
pub(crate) struct Machine {
    /// `None` with the interpreter.
    shared: Option<Arc<Shared>>,
    /// The addresses of the engine's banks of registers.
    bases: Box<[usize]>,
    /// Packets until the program is compiled; zero if it need not be.
    left: u32,
}

impl Machine {
    pub(crate) fn new(kind: EngineKind, code: &Arc<Code>, store: &mut Store) -> Self {
        if kind == EngineKind::Interpreter {
            return Self::default();
        }
        let shared = Shared::find(Plan::new(Arc::clone(code), store));
        let left = match kind {
            EngineKind::Compiled => {
                shared.compile(&|| true);
                0
            }
            _ => ENOUGH,
        };
        Self { shared: Some(shared), bases: store.registers.bases(), left }
    }

    /// What keeps the machine code; `None` with the interpreter.
    pub(crate) fn code(&self) -> Option<MachineCode> {
        self.shared.clone().map(|shared| MachineCode { _shared: shared })
    }

    /// Counts a packet. Starts the compiler after enough packets.
    #[inline]
    pub(crate) fn packet(&mut self) {
        if self.left > 0 {
            self.left -= 1;
            if self.left == 0 {
                self.start();
            }
        }
    }

    #[cold]
    fn start(&self) {
        let Some(shared) = self.shared.clone() else { return };
        if shared.started.swap(true, Ordering::Relaxed) {
            return;
        }
        let work = {
            let shared = Arc::clone(&shared);
            move || shared.compile_for_engines()
        };
        // Without a thread the interpreter continues, and the next engine tries again.
        if let Err(error) = std::thread::Builder::new().name("p4-translator".to_owned()).spawn(work)
        {
            shared.started.store(false, Ordering::Relaxed);
            tracing::warn!("the program stays interpreted: {error}");
        }
    }

    /// The machine code, if it is ready, and the addresses of the engine's banks of registers.
    #[inline]
    pub(crate) fn ready(&self) -> Option<(&Compiled, &[usize])> {
        let compiled = self.shared.as_ref()?.compiled.get()?.as_ref()?;
        Some((compiled, &self.bases))
    }
}

/// Why a program stays with the interpreter.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("no machine code for this processor: {0}")]
    Processor(String),
    #[error("an operation is out of bounds at {0}")]
    Bounds(u32),
    #[error("no packet waits for it any more")]
    Unwanted,
    #[error(transparent)]
    Cranelift(#[from] Box<cranelift_module::ModuleError>),
}

impl From<cranelift_module::ModuleError> for Refusal {
    fn from(error: cranelift_module::ModuleError) -> Self {
        Self::Cranelift(Box::new(error))
    }
}

/// Compiles a program. The compiler gives up once `wanted` returns false, which it asks before each function.
fn translate(plan: &Plan, wanted: &dyn Fn() -> bool) -> Result<Compiled, Refusal> {
    bounds::check(plan)?;
    let mut module = module()?;
    let mut functions = Functions::new(plan);
    let mut context = module.make_context();
    let mut builder = FunctionBuilderContext::new();
    let mut blocks = Vec::new();
    for &entry in &plan.code.blocks {
        blocks.push((entry, functions.declare(&mut module, entry)?));
    }
    while let Some((entry, id)) = functions.next() {
        if !wanted() {
            return Err(Refusal::Unwanted);
        }
        functions.translate(&mut module, entry, &mut context, &mut builder)?;
        module.define_function(id, &mut context)?;
        module.clear_context(&mut context);
    }
    module.finalize_definitions()?;
    Ok(Compiled::new(module, &blocks, plan.code.words))
}

/// Address space for the code of a program, in bytes: many times what the largest program needs.
const ARENA: usize = 64 << 20;

fn module() -> Result<JITModule, Refusal> {
    let refuse = |error: &dyn std::fmt::Display| Refusal::Processor(error.to_string());
    let mut flags = settings::builder();
    // Cranelift's flags for code that is neither relocated nor unwound.
    let options = [
        ("use_colocated_libcalls", "false"),
        ("is_pic", "false"),
        ("unwind_info", "false"),
        ("enable_probestack", "false"),
        ("opt_level", "speed"),
        ("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" }),
    ];
    for (name, value) in options {
        flags.set(name, value).map_err(|error| refuse(&error))?;
    }
    let isa = cranelift_native::builder()
        .map_err(|error| refuse(&error))?
        .finish(settings::Flags::new(flags))
        .map_err(|error| refuse(&error))?;
    if isa.endianness() != Endianness::Little || isa.pointer_bytes() != 8 {
        return Err(refuse(&"it is not a little-endian one of 64 bits"));
    }
    // Parts of the code reach each other over at most 2 GiB, and in a process with many mappings separate
    // allocations can be further apart.
    let arena = ArenaMemoryProvider::new_with_size(ARENA).map_err(|error| refuse(&error))?;
    let mut builder = JITBuilder::with_isa(isa, default_libcall_names());
    builder.memory_provider(Box::new(arena));
    Ok(JITModule::new(builder))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const PROGRAM: &str = "
        #include <v1model.p4>
        header h_t { bit<8> a; bit<8> b; }
        struct headers_t { h_t h; }
        struct meta_t {}
        parser P(packet_in p, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
            state start { p.extract(hdr.h); transition accept; }
        }
        control V(inout headers_t hdr, inout meta_t meta) { apply {} }
        control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
            action one() { hdr.h.b = 1; }
            action two() { hdr.h.b = 2; sm.egress_spec = 3; }
            table t { key = { hdr.h.a: exact; } actions = { one; two; } }
            apply { t.apply(); }
        }
        control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) { apply {} }
        control C(inout headers_t hdr, inout meta_t meta) { apply {} }
        control D(packet_out p, in headers_t hdr) { apply { p.emit(hdr); } }
        V1Switch(P(), V(), I(), E(), C(), D()) main;";

    /// Bytes of mapped address space.
    fn mapped() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let pages = statm.split(' ').next().and_then(|pages| pages.parse().ok());
        pages.unwrap_or(0usize) * 4096
    }

    /// A program may be replaced before any function: the compiler stops there, and gives its memory
    /// back.
    #[test]
    fn unwanted_code_ends_at_any_function_and_leaves_nothing() {
        let compiled = tributary_p4::compile_text("test.p4", PROGRAM, &[]).unwrap();
        let loaded = crate::load::load(&compiled.program).unwrap();
        let plan = Plan::new(loaded.code, &loaded.store);
        let asked = Cell::new(0);
        let count = || {
            asked.set(asked.get() + 1);
            true
        };
        drop(translate(&plan, &count).unwrap());
        let functions = asked.get();
        assert!(functions >= 5, "{functions} functions");
        let before = mapped();
        for _ in 0..20 {
            for last in 0..functions {
                asked.set(0);
                let wanted = || {
                    asked.set(asked.get() + 1);
                    asked.get() <= last
                };
                assert!(matches!(translate(&plan, &wanted), Err(Refusal::Unwanted)));
                assert_eq!(asked.get(), last + 1);
            }
        }
        let grown = mapped().saturating_sub(before);
        assert!(grown < 2 * ARENA, "{grown} bytes of address space are not free again");
    }
}
