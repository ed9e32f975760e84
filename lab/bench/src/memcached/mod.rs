//! A cache behind memcached's text protocol, over TCP: the client that asks, the server that answers, and what they say.
//!
//! What users of memcached have is not a cache in their process but one behind a socket, where most of the time goes to the system. So
//! the question is how much of the server's time is left that a better cache can save: with one request in flight on a connection hardly any, with
//! 25 at a time some. The same client asks [`memcached`](https://memcached.org) itself and [`serve`] over
//! [`percolog::collections::Cache`] or over a list behind a lock.
//!
//! Keys have 16 bytes and values 32, as in the other duels of caches, and are chosen as YCSB does by default.

mod client;
mod items;
mod protocol;
mod server;

pub use client::{Load, Outcome, run};
pub use items::{Items, LockedItems, OurItems, Refused};
pub use server::{Served, serve};

use std::io::{self, Read};

/// What has come, at least one byte unless the other side has closed the connection. A process that was stopped and goes on has not lost it.
fn read_some(stream: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

#[cfg(test)]
mod tests;
