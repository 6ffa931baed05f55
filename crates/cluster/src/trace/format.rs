//! Formats of traces.

use std::fmt;

use super::columns::Columns;

/// The format of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// The Philly trace as one table: `timestamp,duration,num_gpus,gpu_time,cluster`.
    PhillyTable,
    /// The Philly trace as Microsoft published it: `cluster_job_log`, a list of jobs with attempts.
    PhillyLog,
    /// `cluster_log.csv` of SenseTime's Helios.
    Helios,
    /// `trace_seren.csv` and `trace_kalos.csv` of Shanghai AI Lab's Acme.
    Acme,
    /// ElasticFlow's traces of ten Microsoft clusters, raw or with models. One of them is Titan's
    /// trace 1.
    ElasticFlow,
    /// `pai_task_table.csv` of Alibaba's PAI (2020), with or without `pai_job_table.csv`.
    Pai,
    /// `openb_pod_list_*.csv` of Alibaba's GPU sharing (2023).
    Openb,
    /// Output of Slurm's `sacct --parsable` or `--parsable2`.
    Sacct,
    /// The Standard Workload Format of the Parallel Workloads Archive.
    Swf,
    /// Our own: `submit_s,duration_s,gpus` and optionally `group`, `job`, `model`, `iterations` and
    /// `gradient_bytes`; times count from a midnight.
    Compact,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 10] = [
        Self::PhillyTable,
        Self::PhillyLog,
        Self::Helios,
        Self::Acme,
        Self::ElasticFlow,
        Self::Pai,
        Self::Openb,
        Self::Sacct,
        Self::Swf,
        Self::Compact,
    ];

    /// The name on a command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PhillyTable => "philly-csv",
            Self::PhillyLog => "philly-json",
            Self::Helios => "helios",
            Self::Acme => "acme",
            Self::ElasticFlow => "elasticflow",
            Self::Pai => "pai",
            Self::Openb => "openb",
            Self::Sacct => "sacct",
            Self::Swf => "swf",
            Self::Compact => "compact",
        }
    }

    /// The format with this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How a trace is read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reading {
    /// In the format that its content has.
    Detected,
    /// In this format.
    As(Format),
    /// As a table with these columns.
    With(Columns),
}

impl From<Option<Format>> for Reading {
    fn from(format: Option<Format>) -> Self {
        format.map_or(Self::Detected, Self::As)
    }
}

impl From<Columns> for Reading {
    fn from(columns: Columns) -> Self {
        Self::With(columns)
    }
}
