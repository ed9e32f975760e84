//! percolog-bench
