//! JSON, written piece by piece.

use std::fmt::Write as _;

use super::Tally;
use crate::model::{Counts, LineCounts};

/// JSON under construction.
#[derive(Default)]
pub(super) struct Json {
    pub(super) text: String,
}

impl Json {
    /// A comma, unless something has just been opened.
    pub(super) fn separate(&mut self) {
        if !matches!(self.text.as_bytes().last(), None | Some(b'{' | b'[' | b':')) {
            self.text.push(',');
        }
    }

    pub(super) fn open(&mut self, sign: char) {
        self.separate();
        self.text.push(sign);
    }

    pub(super) fn close(&mut self, sign: char) {
        self.text.push(sign);
    }

    pub(super) fn key(&mut self, key: &str) {
        self.item(key);
        self.text.push(':');
    }

    pub(super) fn number(&mut self, key: &str, number: u64) {
        self.key(key);
        let _ = write!(self.text, "{number}");
    }

    pub(super) fn text(&mut self, key: &str, text: &str) {
        self.key(key);
        self.item(text);
    }

    /// A text, escaped.
    pub(super) fn item(&mut self, text: &str) {
        self.separate();
        self.text.push('"');
        for sign in text.chars() {
            match sign {
                '"' => self.text.push_str("\\\""),
                '\\' => self.text.push_str("\\\\"),
                '\n' => self.text.push_str("\\n"),
                sign if u32::from(sign) < 0x20 => {
                    let _ = write!(self.text, "\\u{:04x}", u32::from(sign));
                }
                sign => self.text.push(sign),
            }
        }
        self.text.push('"');
    }

    pub(super) fn list<T>(
        &mut self,
        key: &str,
        items: impl IntoIterator<Item = T>,
        mut each: impl FnMut(&mut Self, T),
    ) {
        self.key(key);
        self.open('[');
        for item in items {
            each(self, item);
        }
        self.close(']');
    }

    pub(super) fn counts(&mut self, key: &str, counts: &Counts) {
        self.key(key);
        self.open('{');
        self.number("cold", counts.cold);
        self.number("memory", counts.memory);
        self.number("reads", counts.reads);
        self.number("writes", counts.writes);
        self.number("upgrades", counts.upgrades);
        self.number("invalidations", counts.invalidations);
        self.number("stall", counts.stall);
        self.number("queued", counts.queued);
        self.number("cold_stall", counts.cold_stall);
        self.close('}');
    }

    pub(super) fn line(&mut self, tally: &Tally, line_size: u64, line: u64, counts: &LineCounts) {
        let address = line.wrapping_mul(line_size);
        self.open('{');
        self.number("line", address);
        self.counts("counts", &counts.counts);
        for (key, cores) in [("readers", &counts.readers), ("writers", &counts.writers)] {
            self.list(key, cores.iter(), |json, core| {
                json.separate();
                let _ = write!(json.text, "{core}");
            });
        }
        let mut places = counts.places.clone();
        places.sort_by_key(|place| (std::cmp::Reverse(place.stall), place.pc, place.write));
        self.list("places", places, |json, place| {
            json.open('{');
            json.number("pc", place.pc);
            json.key("write");
            json.text
                .push_str(if place.write { "true" } else { "false" });
            json.number("events", place.events);
            json.number("stall", place.stall);
            json.close('}');
        });
        self.number("elsewhere", counts.elsewhere);
        self.key("label");
        match tally.labels_in(address, line_size) {
            Some(label) => self.item(&label),
            None => self.text.push_str("null"),
        }
        self.close('}');
    }
}
