//! The solver of linear and mixed-integer programs.

#[cfg(not(feature = "highs"))]
pub(crate) use good_lp::microlp as solver;

/// HiGHS, with tolerances below the checker's, on one core as microlp.
#[cfg(feature = "highs")]
pub(crate) fn solver(
    problem: good_lp::variable::UnsolvedProblem,
) -> good_lp::solvers::highs::HighsProblem {
    good_lp::highs(problem)
        .set_threads(1)
        .set_option("primal_feasibility_tolerance", 1e-9)
        .set_option("mip_feasibility_tolerance", 1e-9)
}

/// The name of the solver.
pub const SOLVER: &str = if cfg!(feature = "highs") { "HiGHS" } else { "microlp" };
