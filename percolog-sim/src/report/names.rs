//! What a line is called, and who uses it, in words.

use super::findings::{ObjectKind, SpanSummary, Verdict, WhatIf};
use super::summary::{LineSummary, PlaceSummary};
use crate::symbols::Place;

impl LineSummary {
    /// What it is called: its label, its object, or the kind of memory.
    #[must_use]
    pub fn name(&self) -> String {
        match (&self.label, &self.object) {
            (Some(label), _) => label.clone(),
            (None, Some(object)) if object.name.is_empty() => self.memory.clone(),
            (None, Some(object)) if object.kind == ObjectKind::Static && object.offset > 0 => {
                format!("{}+{:#x}", object.name, object.offset)
            }
            (None, Some(object)) => object.name.clone(),
            (None, None) => self.memory.clone(),
        }
    }

    /// What kind of memory it is, or where it lies: what its [name](Self::name) does not say.
    #[must_use]
    pub fn origin(&self) -> String {
        let mut parts = Vec::new();
        if self.label.is_some() {
            parts.push(self.memory.clone());
        }
        if let Some(process) = self.process {
            parts.push(format!("of process {process}"));
        }
        let Some(object) = &self.object else {
            parts.push(format!("at {:#x}", self.address));
            return parts.join(", ");
        };
        match object.kind {
            ObjectKind::Static => parts.push("a variable".to_owned()),
            ObjectKind::Heap if self.memory != "heap" || self.label.is_none() => {
                parts.push("on the heap".to_owned());
            }
            ObjectKind::Mapped => parts.push("in mapped memory".to_owned()),
            // An address says something only where nothing else does.
            _ => parts.push(format!("at {:#x}", self.address)),
        }
        if let Some(size) = object.size
            && !object.name.contains("bytes")
        {
            let s = if size == 1 { "" } else { "s" };
            parts.push(format!("{size} byte{s}"));
        }
        if let Some(site) = object.allocated.first()
            && !object.name.contains(&site.function)
        {
            parts.push(format!("allocated in {}", site.function));
        }
        if object.kind != ObjectKind::Static && object.offset > 0 {
            parts.push(format!("from its byte {} on", object.offset));
        }
        parts.join(", ")
    }

    /// Who uses it, and whether that is for what lies in it.
    #[must_use]
    pub fn users(&self) -> String {
        let sharing = match self.sharing.verdict {
            Verdict::True => "truly shared: ",
            Verdict::False => "falsely shared, cores use different bytes: ",
            Verdict::Mixed => "shared truly and falsely: ",
            Verdict::Unknown => "",
        };
        let cores = |count: usize| match count {
            1 => "1 core".to_owned(),
            _ => format!("{count} cores"),
        };
        let users = match (self.readers.len(), self.writers.len()) {
            (0, 0) => "used by no core".to_owned(),
            (readers, 0) => format!("read by {}", cores(readers)),
            (0, writers) => format!("written by {}", cores(writers)),
            (readers, writers) => format!("read by {}, written by {writers}", cores(readers)),
        };
        format!("{sharing}{users}")
    }

    /// Which of its bytes, the most contended first; empty if that is not known.
    #[must_use]
    pub fn bytes(&self) -> String {
        const NAMED: usize = 3;
        let mut spans: Vec<&SpanSummary> = self.spans.iter().collect();
        spans.sort_by_key(|span| (std::cmp::Reverse(span.events), span.offset));
        let mut text = spans
            .iter()
            .take(NAMED)
            .map(|span| match &span.name {
                Some(name) => format!("{} ({name})", span.range()),
                None => span.range(),
            })
            .collect::<Vec<_>>()
            .join(", ");
        if spans.len() > NAMED {
            text.push_str(&format!(" and {} more", spans.len() - NAMED));
        }
        match spans.len() {
            0 => String::new(),
            1 if spans[0].size == 1 => format!("byte {text}"),
            _ => format!("bytes {text}"),
        }
    }

    /// What the program would gain if this line, or all contended lines of its object, cost nothing, if that was tried.
    #[must_use]
    pub fn gain(&self) -> Option<WhatIf> {
        let object = self.what_if_object.as_ref().map(|object| object.gain);
        object.or(self.what_if)
    }

    /// What was free when the [gain](Self::gain) was found, in words: `it`, or `its 4 contended lines`.
    #[must_use]
    pub fn freed(&self) -> String {
        match self.freed_with() {
            [] => "it".to_owned(),
            lines => format!("its {} contended lines", lines.len()),
        }
    }

    /// The addresses of the lines that were free together, in ascending order; none if this one was alone.
    #[must_use]
    pub fn freed_with(&self) -> &[u64] {
        self.what_if_object
            .as_ref()
            .map_or(&[], |object| &object.lines)
    }
}

impl SpanSummary {
    /// `0-7`.
    #[must_use]
    pub fn range(&self) -> String {
        if self.size <= 1 {
            self.offset.to_string()
        } else {
            format!(
                "{}-{}",
                self.offset,
                self.offset.saturating_add(self.size - 1)
            )
        }
    }
}

impl PlaceSummary {
    /// By which function of a library or of the language the line was used on behalf of the [place](Self::place), if it was not by the
    /// program's own code.
    #[must_use]
    pub fn through(&self) -> Option<&Place> {
        let innermost = self.frames.first()?;
        (self.own().is_some() && innermost.function != self.place.function).then_some(innermost)
    }

    /// Who called the [place](Self::place), the innermost first.
    #[must_use]
    pub fn called_by(&self) -> &[Place] {
        let own = self.own().map_or(0, |own| own + 1);
        let behind = &self.frames[own..];
        let same = behind
            .iter()
            .take_while(|frame| frame.function == self.place.function)
            .count();
        &behind[same..]
    }

    /// Which of the frames the place is.
    fn own(&self) -> Option<usize> {
        self.frames
            .iter()
            .position(|frame| frame.function == self.place.function)
    }
}

#[cfg(test)]
mod tests {
    use super::super::examples::{known, run};
    use super::*;

    fn place(function: &str) -> Place {
        Place {
            function: function.to_owned(),
            ..Place::default()
        }
    }

    #[test]
    fn callers_stand_behind_the_place_and_libraries_in_front_of_it() {
        let mut at = run().summary().lines[0].places[0].clone();
        at.place = place("work");
        at.frames = ["pthread_mutex_lock", "work", "work", "main"]
            .map(place)
            .to_vec();
        assert_eq!(at.through(), Some(&place("pthread_mutex_lock")));
        assert_eq!(at.called_by(), [place("main")]);
        at.frames = vec![place("work")];
        assert_eq!((at.through(), at.called_by()), (None, &[][..]));
        at.frames = vec![place("caller")];
        assert_eq!(
            (at.through(), at.called_by()),
            (None, &[place("caller")][..])
        );
        at.frames.clear();
        assert_eq!((at.through(), at.called_by()), (None, &[][..]));
    }

    #[test]
    fn names_and_origins_do_not_repeat_each_other() {
        let mut line = run().summary().lines[0].clone();
        line.memory = "HITS".to_owned();
        assert_eq!(
            (line.name(), line.origin()),
            ("it".to_owned(), "HITS, at 0x1000".to_owned())
        );
        known(&mut line);
        line.label = None;
        let object = line.object.as_mut().expect("it is known");
        object.offset = 64;
        assert_eq!(
            line.origin(),
            "on the heap, 80 bytes, allocated in main, from its byte 64 on"
        );
        let object = line.object.as_mut().expect("it is known");
        object.name = "80 bytes allocated in main (main.c:3)".to_owned();
        assert_eq!(line.name(), "80 bytes allocated in main (main.c:3)");
        assert_eq!(line.origin(), "on the heap, from its byte 64 on");
        let object = line.object.as_mut().expect("it is known");
        (object.kind, object.name) = (ObjectKind::Static, "TABLE".to_owned());
        object.allocated.clear();
        assert_eq!(
            (line.name(), line.origin()),
            ("TABLE+0x40".to_owned(), "a variable, 80 bytes".to_owned())
        );
    }

    #[test]
    fn bytes_come_in_the_order_of_their_contention() {
        let mut line = run().summary().lines[0].clone();
        assert_eq!(line.bytes(), "");
        let span = |offset, size, events| SpanSummary {
            offset,
            size,
            readers: Vec::new(),
            writers: vec![1],
            events,
            name: None,
        };
        line.spans = vec![span(3, 1, 1)];
        assert_eq!(line.bytes(), "byte 3");
        line.spans = vec![span(0, 8, 1), span(8, 4, 9), span(16, 8, 2), span(24, 8, 1)];
        assert_eq!(line.bytes(), "bytes 8-11, 16-23, 0-7 and 1 more");
    }
}
