//! percolog-papers
