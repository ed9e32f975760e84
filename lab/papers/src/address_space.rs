//! The mappings of one address space: what `mmap`, `munmap`, `fork` and `exec` do to them.
//!
//! Invariant: regions do not overlap, and each carries the identity that the [`Ledger`] gave it. A
//! region is entered once and leaves once; one that is cut leaves, and its remains are entered anew.

use std::collections::BTreeMap;

/// A part of an object, a file for example, that an address space maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region<O> {
    pub(crate) length: u64,
    pub(crate) object: O,
    pub(crate) offset: u64,
}

/// Hears of every region that comes or goes.
pub(crate) trait Ledger<O> {
    /// A region has come; the answer is its identity.
    fn enter(&mut self, region: Region<O>) -> u32;
    /// The region of this identity has gone.
    fn leave(&mut self, identity: u32);
}

/// The mappings of one address space.
#[derive(Debug)]
pub(crate) struct AddressSpace<O> {
    /// By address. Addresses and lengths never pass the end of the 64-bit space.
    regions: BTreeMap<u64, (Region<O>, u32)>,
    /// The program itself, mapped by the kernel at an address that nobody recorded: no `munmap` in a
    /// trace means it, and only `exec` and `exit` end it.
    program: Option<(Region<O>, u32)>,
}

impl<O> Default for AddressSpace<O> {
    fn default() -> Self {
        AddressSpace {
            regions: BTreeMap::new(),
            program: None,
        }
    }
}

impl<O: Copy> AddressSpace<O> {
    /// The region that contains `address`, and where it starts.
    pub(crate) fn region_at(&self, address: u64) -> Option<(u64, Region<O>)> {
        let (&start, &(region, _)) = self.regions.range(..=address).next_back()?;
        (address - start < region.length).then_some((start, region))
    }

    /// How many regions there are.
    pub(crate) fn len(&self) -> usize {
        self.regions.len() + usize::from(self.program.is_some())
    }

    /// Whether any region overlaps `length` bytes from `address` on.
    pub(crate) fn overlaps(&self, address: u64, length: u64) -> bool {
        self.region_at(address).is_some()
            || self
                .regions
                .range(address..address + length)
                .next()
                .is_some()
    }

    /// Maps `region` at `address`, in place of whatever was there.
    pub(crate) fn map(&mut self, address: u64, region: Region<O>, ledger: &mut impl Ledger<O>) {
        self.unmap(address, region.length, ledger);
        let identity = ledger.enter(region);
        self.regions.insert(address, (region, identity));
    }

    /// Unmaps `length` bytes from `address` on; a region that sticks out keeps what sticks out.
    pub(crate) fn unmap(&mut self, address: u64, length: u64, ledger: &mut impl Ledger<O>) {
        let end = address + length;
        // Regions do not overlap, so only the last one that starts below can reach in.
        let first = match self.region_at(address) {
            Some((start, _)) => start,
            None => address,
        };
        let hit: Vec<u64> = self
            .regions
            .range(first..end)
            .map(|(&start, _)| start)
            .collect();
        for start in hit {
            let Some((region, identity)) = self.regions.remove(&start) else {
                continue;
            };
            ledger.leave(identity);
            if start < address {
                let left = Region {
                    length: address - start,
                    ..region
                };
                let identity = ledger.enter(left);
                self.regions.insert(start, (left, identity));
            }
            let region_end = start + region.length;
            if region_end > end {
                let right = Region {
                    length: region_end - end,
                    offset: region.offset + (end - start),
                    ..region
                };
                let identity = ledger.enter(right);
                self.regions.insert(end, (right, identity));
            }
        }
    }

    /// What `fork` makes: every mapping once more, under identities of its own.
    pub(crate) fn copy(&self, ledger: &mut impl Ledger<O>) -> AddressSpace<O> {
        let mut again = |&(region, _): &(Region<O>, u32)| (region, ledger.enter(region));
        AddressSpace {
            program: self.program.as_ref().map(&mut again),
            regions: self
                .regions
                .iter()
                .map(|(&start, entry)| (start, again(entry)))
                .collect(),
        }
    }

    /// Drops every mapping, as `exec` and the last `exit` do.
    pub(crate) fn clear(&mut self, ledger: &mut impl Ledger<O>) {
        for (_, identity) in self
            .program
            .take()
            .into_iter()
            .chain(std::mem::take(&mut self.regions).into_values())
        {
            ledger.leave(identity);
        }
    }

    /// Maps the program that `exec` has just started.
    pub(crate) fn set_program(&mut self, region: Region<O>, ledger: &mut impl Ledger<O>) {
        if let Some((_, old)) = self.program.take() {
            ledger.leave(old);
        }
        self.program = Some((region, ledger.enter(region)));
    }

    /// Every region, and where it starts.
    #[cfg(test)]
    pub(crate) fn regions(&self) -> impl Iterator<Item = (u64, Region<O>)> + '_ {
        self.regions
            .iter()
            .map(|(&start, &(region, _))| (start, region))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// Checks that identities come once and go once, and remembers what each one is.
    #[derive(Default)]
    struct Book {
        next: u32,
        open: BTreeMap<u32, Region<u32>>,
    }

    impl Ledger<u32> for Book {
        fn enter(&mut self, region: Region<u32>) -> u32 {
            assert!(region.length > 0, "an empty region was entered");
            self.next += 1;
            self.open.insert(self.next, region);
            self.next
        }
        fn leave(&mut self, identity: u32) {
            assert!(
                self.open.remove(&identity).is_some(),
                "identity {identity} left twice or never came"
            );
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Map(u64, u64, u32, u64),
        Unmap(u64, u64),
        Fork,
        Program(u64),
        Clear,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            5 => (0..60_u64, 1..20_u64, 0..3_u32, 0..40_u64).prop_map(|(a, l, f, o)| Step::Map(a, l, f, o)),
            4 => (0..60_u64, 1..20_u64).prop_map(|(a, l)| Step::Unmap(a, l)),
            1 => Just(Step::Fork),
            1 => (1..9_u64).prop_map(Step::Program),
            1 => Just(Step::Clear),
        ]
    }

    proptest! {
        /// Byte by byte: what each address shows is what the last operation on it left.
        #[test]
        fn agrees_with_a_map_of_single_bytes(steps in prop::collection::vec(step(), 1..60)) {
            let mut book = Book::default();
            let mut space = AddressSpace::default();
            let mut bytes: BTreeMap<u64, (u32, u64)> = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Map(address, length, file, offset) => {
                        space.map(address, Region { length, object: file, offset }, &mut book);
                        for i in 0..length {
                            bytes.insert(address + i, (file, offset + i));
                        }
                    }
                    Step::Unmap(address, length) => {
                        let overlapped = (address..address + length).any(|a| bytes.contains_key(&a));
                        prop_assert_eq!(space.overlaps(address, length), overlapped);
                        space.unmap(address, length, &mut book);
                        for a in address..address + length {
                            bytes.remove(&a);
                        }
                    }
                    Step::Fork => {
                        // The child goes on; the parent ends.
                        let child = space.copy(&mut book);
                        space.clear(&mut book);
                        space = child;
                    }
                    Step::Program(length) => {
                        space.set_program(Region { length, object: 9, offset: 0 }, &mut book);
                    }
                    Step::Clear => {
                        space.clear(&mut book);
                        bytes.clear();
                        prop_assert!(book.open.is_empty());
                    }
                }
                let mut seen = BTreeMap::new();
                for (start, region) in space.regions() {
                    for i in 0..region.length {
                        prop_assert!(seen.insert(start + i, (region.object, region.offset + i)).is_none());
                    }
                }
                prop_assert_eq!(&seen, &bytes);
                for (&address, &(file, offset)) in &bytes {
                    let (start, region) = space.region_at(address).expect("mapped");
                    prop_assert_eq!((region.object, region.offset + (address - start)), (file, offset));
                }
                let known: BTreeSet<u32> = space.regions.values().map(|entry| entry.1)
                    .chain(space.program.map(|entry| entry.1)).collect();
                prop_assert_eq!(known, book.open.keys().copied().collect::<BTreeSet<u32>>());
            }
        }
    }
}
