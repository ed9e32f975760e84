//! What is recorded, and what is rendered of it: names and values of every kind, from many threads, and over a socket.

mod common;
mod concurrent;
mod exposition;
mod scrape;
