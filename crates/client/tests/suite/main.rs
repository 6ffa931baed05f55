//! Commands of the client against the embedded switch.

mod completion;
mod device;
mod entries;
mod objects;
mod round_trip;
