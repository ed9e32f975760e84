//! percolog-cli

fn main() {}
