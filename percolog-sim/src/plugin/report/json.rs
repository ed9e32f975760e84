//! JSON, written piece by piece.

use std::fmt::Write as _;

use super::Snapshot;
use crate::model::{CoreSet, Counts, LineCounts};

/// JSON under construction.
#[derive(Debug, Default)]
pub(crate) struct Json {
    pub(super) text: String,
}

impl Json {
    /// A comma, unless something has just been opened.
    pub(crate) fn separate(&mut self) {
        if !matches!(self.text.as_bytes().last(), None | Some(b'{' | b'[' | b':')) {
            self.text.push(',');
        }
    }

    pub(crate) fn open(&mut self, sign: char) {
        self.separate();
        self.text.push(sign);
    }

    pub(crate) fn close(&mut self, sign: char) {
        self.text.push(sign);
    }

    pub(crate) fn key(&mut self, key: &str) {
        self.item(key);
        self.text.push(':');
    }

    /// A number or a word of JSON's.
    pub(crate) fn literal(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// What was written.
    #[cfg(test)]
    pub(crate) fn into_text(self) -> String {
        self.text
    }

    pub(crate) fn number(&mut self, key: &str, number: u64) {
        self.key(key);
        let _ = write!(self.text, "{number}");
    }

    pub(crate) fn text(&mut self, key: &str, text: &str) {
        self.key(key);
        self.item(text);
    }

    /// A text, escaped.
    pub(crate) fn item(&mut self, text: &str) {
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

    pub(crate) fn list<T>(
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

    fn cores(&mut self, key: &str, cores: &CoreSet) {
        self.list(key, cores.iter(), |json, core| {
            json.separate();
            let _ = write!(json.text, "{core}");
        });
    }

    pub(super) fn line(&mut self, snapshot: &Snapshot<'_>, line: u64, counts: &LineCounts) {
        let place = line.wrapping_mul(snapshot.line_size);
        let (address, owner) = snapshot.spaces.shown(place);
        self.open('{');
        self.number("line", address);
        match (owner, snapshot.spaces.file(place)) {
            (Some(process), _) if process > 0 => self.number("process", process as u64),
            (_, Some(file)) => self.text("file", file),
            _ => {}
        }
        self.counts("counts", &counts.counts);
        self.cores("readers", &counts.readers);
        self.cores("writers", &counts.writers);
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
        self.list("by_core", &counts.by_core, |json, of| {
            json.open('{');
            json.number("core", u64::from(of.core));
            json.number("events", of.events);
            json.number("stall", of.stall);
            json.close('}');
        });
        self.list("spans", counts.spans.sorted(), |json, span| {
            json.open('{');
            json.number("offset", span.bytes.offset.into());
            json.number("size", span.bytes.size.into());
            json.cores("readers", &span.readers);
            json.cores("writers", &span.writers);
            json.number("events", span.events);
            json.close('}');
        });
        let shared = counts.shared();
        self.number("true_events", shared.truly);
        self.number("false_events", shared.falsely);
        self.number("undecided_events", shared.undecided);
        self.key("label");
        match snapshot.tally.labels_in(place, snapshot.line_size) {
            Some(label) => self.item(&label),
            None => self.text.push_str("null"),
        }
        snapshot.witness.line(self, snapshot.spaces, line);
        self.close('}');
    }
}
