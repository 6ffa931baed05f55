//! Fuzz targets. No input may make a target panic, or take more memory or processor time than it is allowed.
//!
//! | module | input |
//! | --- | --- |
//! | [`wire`] | frames, and messages of ESA's channel, to be decoded |
//! | [`endpoints`] | frames that workers and parameter servers receive |
//! | [`switch`] | frames that switches with our programs receive; requests of P4Runtime |
//! | [`services`] | requests of our gRPC services |
//! | [`files`] | job files and other TOML, tensors, traces |
//! | [`sources`] | P4 programs and STF scripts |

mod bounds;
mod endpoints;
mod files;
mod reader;
mod services;
mod sources;
mod switch;
mod wire;
