//! Placement policies: where the jobs of a batch go, and which of them a switch aggregates for.
//!
//! A policy is a [`tributary_cluster::Policy`], a file each. NetPack and what its paper compares it
//! with place workers and a parameter server for jobs whose gradients switches aggregate; Titan and
//! what its paper compares it with place the ranks of an all-reduce.
