//! The `tributary` command.
fn main() {}
