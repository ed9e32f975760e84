//! Which object a line belongs to, and who used it: what the snapshots of stacks come to.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use serde::Serialize;

use super::blame::is_plumbing;
use super::findings::{ObjectKind, ObjectSummary};
use super::unwind::Unwinder;
use crate::raw::{BlockResult, LineResult, PlaceResult, ProcessResult, StackResult};
use crate::symbols::{Place, STACK_MEMORY, Symbols};

/// A place of the program on whose behalf an instruction waited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CallerSummary {
    /// Where it is.
    #[serde(flatten)]
    pub place: Place,
    /// How often the instruction waited for it, as far as that was seen.
    pub events: u64,
}

/// The callers of a process's events and allocations.
pub(super) struct Callers<'a> {
    symbols: &'a Symbols,
    unwinder: Unwinder<'a>,
    stacks: HashMap<u32, &'a StackResult>,
    chains: RefCell<HashMap<u32, Rc<Chain>>>,
    places: RefCell<HashMap<u64, Rc<Vec<Place>>>>,
}

/// The calls that led somewhere, the innermost first.
#[derive(Default)]
struct Chain {
    frames: Vec<Place>,
    /// The first that is the program's own.
    own: Option<usize>,
    /// The first that called another: of an allocation the one before is the allocator's.
    caller: Option<usize>,
    /// The first of those that is the program's own.
    own_caller: Option<usize>,
}

impl Chain {
    fn blamed(&self) -> Option<&Place> {
        self.frames.get(self.own.unwrap_or(0))
    }
}

/// Who used a line at one instruction.
pub(super) struct Users {
    /// Whose doing it is most of the time.
    pub(super) place: Place,
    /// How it came there.
    pub(super) frames: Vec<Place>,
    /// All whose doing it is, if it is not always the same.
    pub(super) callers: Vec<CallerSummary>,
}

impl<'a> Callers<'a> {
    pub(super) fn new(process: &'a ProcessResult, symbols: &'a Symbols) -> Self {
        Self {
            symbols,
            unwinder: Unwinder::new(symbols),
            stacks: process
                .stacks
                .iter()
                .map(|stack| (stack.number, stack))
                .collect(),
            chains: RefCell::default(),
            places: RefCell::default(),
        }
    }

    fn places(&self, pc: u64) -> Rc<Vec<Place>> {
        let mut places = self.places.borrow_mut();
        let found = places
            .entry(pc)
            .or_insert_with(|| Rc::new(self.symbols.frames(pc)));
        Rc::clone(found)
    }

    fn chain(&self, number: u32) -> Rc<Chain> {
        if let Some(known) = self.chains.borrow().get(&number) {
            return Rc::clone(known);
        }
        let mut chain = Chain::default();
        if let Some(stack) = self.stacks.get(&number) {
            for (depth, call) in self.unwinder.calls(stack).into_iter().enumerate() {
                let is_stub = self.symbols.is_stub(call);
                let module = self.symbols.linked(call).map_or("", |(path, _)| path);
                for place in self.places(call).iter() {
                    if depth > 0 {
                        chain.caller.get_or_insert(chain.frames.len());
                    }
                    if !is_stub && !is_plumbing(place, module) {
                        let at = chain.frames.len();
                        chain.own.get_or_insert(at);
                        if depth > 0 {
                            chain.own_caller.get_or_insert(at);
                        }
                    }
                    chain.frames.push(place.clone());
                }
            }
        }
        let chain = Rc::new(chain);
        self.chains.borrow_mut().insert(number, Rc::clone(&chain));
        chain
    }

    /// Who used the line at this place; nothing if no stack was seen there.
    pub(super) fn users(&self, line: &LineResult, place: &PlaceResult) -> Option<Users> {
        let mut users: Vec<(Rc<Chain>, u64)> = Vec::new();
        for seen in &line.chains {
            if (seen.pc, seen.write) != (place.pc, place.write) {
                continue;
            }
            let chain = self.chain(seen.stack);
            let known = users
                .iter_mut()
                .find(|(known, _)| known.blamed() == chain.blamed());
            match known {
                Some((_, events)) => *events += seen.events,
                None => users.push((chain, seen.events)),
            }
        }
        users.sort_by_key(|(_, events)| std::cmp::Reverse(*events));
        let (most, _) = users.first()?;
        let place = most.blamed()?.clone();
        let callers = match &users[..] {
            [_] => Vec::new(),
            several => several
                .iter()
                .filter_map(|(chain, events)| {
                    Some(CallerSummary {
                        place: chain.blamed()?.clone(),
                        events: *events,
                    })
                })
                .collect(),
        };
        Some(Users {
            place,
            frames: most.frames.clone(),
            callers,
        })
    }

    /// The object that the line is part of.
    pub(super) fn object(&self, line: &LineResult) -> Option<ObjectSummary> {
        let mut object = self.unlabelled(line)?;
        if let Some(label) = &line.label {
            object.name.clone_from(label);
        }
        Some(object)
    }

    fn unlabelled(&self, line: &LineResult) -> Option<ObjectSummary> {
        let offset = |start: u64| line.line.wrapping_sub(start).cast_signed();
        if let Some(block) = &line.block {
            return Some(self.allocated(line, block, ObjectKind::Heap));
        }
        let touched = line.touched.unwrap_or(line.line);
        if let Some((name, start, size)) = self.symbols.variable(touched) {
            return Some(ObjectSummary {
                kind: ObjectKind::Static,
                name,
                address: start,
                size: Some(size),
                offset: offset(start),
                allocated: Vec::new(),
            });
        }
        if line.on_stack || self.symbols.is_stack(touched) {
            return Some(ObjectSummary {
                kind: ObjectKind::Stack,
                name: STACK_MEMORY.to_owned(),
                address: line.line,
                size: None,
                offset: 0,
                allocated: Vec::new(),
            });
        }
        if self.symbols.linked(touched).is_some() {
            // Of a stripped program: where in it.
            return Some(ObjectSummary {
                kind: ObjectKind::Static,
                name: self.symbols.memory(touched, 1),
                address: touched,
                size: None,
                offset: offset(touched),
                allocated: Vec::new(),
            });
        }
        let mapping = line.mapping.as_ref()?;
        Some(self.allocated(line, mapping, ObjectKind::Mapped))
    }

    /// A block, called after who asked for it.
    fn allocated(&self, line: &LineResult, block: &BlockResult, kind: ObjectKind) -> ObjectSummary {
        let (verb, place) = match kind {
            ObjectKind::Mapped => ("mapped", "that are mapped"),
            _ => ("allocated", "of the heap"),
        };
        let chain = block.stack.map(|stack| self.chain(stack));
        let (name, allocated) = match &chain {
            Some(chain) if !chain.frames.is_empty() => {
                let own = chain.own_caller.or(chain.caller).unwrap_or(0);
                let by = in_short(&chain.frames[own]);
                (
                    format!("{} bytes {verb} in {by}", block.size),
                    chain.frames[own..].to_vec(),
                )
            }
            _ => (format!("{} bytes {place}", block.size), Vec::new()),
        };
        ObjectSummary {
            kind,
            name,
            address: block.address,
            size: Some(block.size),
            offset: line.line.wrapping_sub(block.address).cast_signed(),
            allocated,
        }
    }
}

/// A function, and the line in its file: `Cache::insert (cache.rs:42)`.
fn in_short(place: &Place) -> String {
    match (&place.file, place.line) {
        (Some(file), Some(line)) => {
            let file = file.rsplit('/').next().unwrap_or(file);
            format!("{} ({file}:{line})", place.function)
        }
        _ => place.function.clone(),
    }
}
