//! P4INC and SwitchML: endpoints individually, and together behind model switches in a network of
//! virtual time.

mod exact;
mod expect;
mod hostile;
mod mutants;
mod net;
mod server;
mod setup;
mod switch;
mod worker;
