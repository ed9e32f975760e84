//! A reverse map as an object of a subsystem: of a file, which truncates read; of memory, where a page is looked for.

use super::ReverseMap;
use crate::subsystem::{Entry, SharedObject};
use percolog::oplog::LogStats;

/// The reverse map of a file.
#[derive(Debug, Default)]
pub struct OfFile<M>(M);

/// The reverse map of memory without a file.
#[derive(Debug, Default)]
pub struct Anonymous<M>(M);

macro_rules! shared_object {
    ($type:ident, |$map:ident, $argument:ident| $read:expr) => {
        impl<M: ReverseMap> SharedObject for $type<M> {
            type Arrival = M::Addition;
            type Departure = M::Removal;
            type View = Vec<Entry>;

            fn life(entry: Entry) -> (M::Addition, M::Removal) {
                M::identity(entry)
            }

            fn enter(&self, arrival: M::Addition) {
                self.0.add(arrival);
            }

            fn leave(&self, departure: M::Removal) {
                self.0.remove(departure);
            }

            fn read(&self, $argument: u64) -> Vec<Entry> {
                let $map = &self.0;
                $read
            }

            fn view(&self) -> Vec<Entry> {
                self.0.mappings()
            }

            fn expected(entries: &[Entry]) -> Vec<Entry> {
                entries.to_vec()
            }

            fn statistics(&self) -> Option<LogStats> {
                self.0.statistics()
            }
        }
    };
}

shared_object!(OfFile, |map, length| map.truncate(length));
shared_object!(Anonymous, |map, offset| map.at(offset));
