//! A row that grows at its end, on cache lines of its own.

use crate::cpu::LINE_SIZE;
use crate::cpu::prefetch::{MOVED_AT_ONCE, prefetch_for_write};
use alloc::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use core::marker::PhantomData;
use core::mem;
use core::ops::{Deref, DerefMut};
use core::panic::UnwindSafe;
use core::ptr::{self, NonNull};
use core::slice;

/// How many lines before a line is begun it is asked for. A line is on its way for no longer than it takes to queue what fills so many.
const LINES_AHEAD: usize = 4;

/// What a `Vec` is, but aligned to lines as soon as it fills one.
///
/// A row travels to whoever merges and back: its first value, if it lay on two lines, would cost two
/// transfers, and whatever lay on the same lines as its ends would travel with it.
pub(super) struct Row<T> {
    start: NonNull<T>,
    length: usize,
    room: usize,
    values: PhantomData<T>,
}

// SAFETY: a row owns its values, and nobody else has the pointer.
unsafe impl<T: Send> Send for Row<T> {}
// SAFETY: through a shared row only shared values can be reached.
unsafe impl<T: Sync> Sync for Row<T> {}

// A row owns its values, though the compiler sees a pointer that might be shared.
impl<T: UnwindSafe> UnwindSafe for Row<T> {}

impl<T> Row<T> {
    /// So many values begin on one line, or each on its own.
    const OF_A_LINE: usize = {
        let of_a_line = MOVED_AT_ONCE / size_of::<T>();
        if of_a_line == 0 { 1 } else { of_a_line }
    };

    pub(super) fn with_room(room: usize) -> Self {
        const {
            assert!(size_of::<T>() != 0, "a layout without a size has no memory");
            assert!(!mem::needs_drop::<T>(), "values are forgotten, not dropped");
        }
        Self {
            start: Self::memory_for(room),
            length: 0,
            room,
            values: PhantomData,
        }
    }

    /// For how many values there is room.
    pub(super) fn room(&self) -> usize {
        self.room
    }

    /// How many bytes have been asked of the allocator for the row.
    pub(super) fn memory(&self) -> usize {
        if self.room == 0 {
            return 0;
        }
        Self::layout(self.room).size()
    }

    #[inline(always)]
    pub(super) fn push(&mut self, value: T) {
        if self.length == self.room {
            self.grow();
        }
        // SAFETY: there is room for one more.
        let place = unsafe { self.start.add(self.length) };
        if place.addr().get() % MOVED_AT_ONCE < size_of::<T>() {
            self.begin_line();
        }
        // SAFETY: as above.
        unsafe { place.write(value) };
        self.length += 1;
    }

    /// The next value begins a line: asks for one that will be begun soon.
    ///
    /// The row comes back from whoever merged, with its lines in that processor's cache. The owner of the row takes a lock with each value,
    /// which waits for all earlier writes: without this, each line's way here would be waited for.
    #[inline(always)]
    fn begin_line(&self) {
        if self.length == 0 {
            self.begin_first_line();
        }
        self.ask_for(self.length + LINES_AHEAD * Self::OF_A_LINE);
    }

    /// Asks for the lines between the first one and the one that [`begin_line`](Self::begin_line) asks for.
    #[cold]
    fn begin_first_line(&self) {
        for line in 1..LINES_AHEAD {
            self.ask_for(line * Self::OF_A_LINE);
        }
    }

    /// Beyond the row's room lies what others write.
    #[inline(always)]
    fn ask_for(&self, at: usize) {
        if at < self.room {
            prefetch_for_write(self.start.as_ptr().wrapping_add(at));
        }
    }

    pub(super) fn clear(&mut self) {
        self.length = 0;
    }

    /// Gives memory back so that there is room for so many values, or for those that there are.
    pub(super) fn shrink_to(&mut self, room: usize) {
        let room = room.max(self.length);
        if room < self.room {
            self.move_to(room);
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        // At least what a line holds. Doubling cannot overflow: a row has at most `isize::MAX` bytes.
        self.move_to((2 * self.room).max(LINE_SIZE / size_of::<T>()).max(1));
    }

    fn move_to(&mut self, room: usize) {
        debug_assert!(room >= self.length);
        let to = Self::memory_for(room);
        // SAFETY: the new memory has room for the values, and is not the old.
        unsafe { ptr::copy_nonoverlapping(self.start.as_ptr(), to.as_ptr(), self.length) };
        self.free();
        (self.start, self.room) = (to, room);
    }

    fn layout(room: usize) -> Layout {
        let planned = Layout::array::<T>(room).and_then(|array| {
            if array.size() < LINE_SIZE {
                return Ok(array);
            }
            Ok(array.align_to(LINE_SIZE)?.pad_to_align())
        });
        match planned {
            Ok(layout) => layout,
            Err(_) => panic!("more operations than addresses"),
        }
    }

    fn memory_for(room: usize) -> NonNull<T> {
        if room == 0 {
            return NonNull::dangling();
        }
        let layout = Self::layout(room);
        // SAFETY: the size is not zero: neither is `room`, nor that of a `T`.
        let memory = unsafe { alloc(layout) };
        match NonNull::new(memory) {
            Some(memory) => memory.cast(),
            None => handle_alloc_error(layout),
        }
    }

    /// Leaves a dangling pointer.
    fn free(&mut self) {
        if self.room != 0 {
            // SAFETY: `start` comes from `memory_for(room)`, which has used the same layout.
            unsafe { dealloc(self.start.as_ptr().cast(), Self::layout(self.room)) };
        }
    }
}

impl<T> Deref for Row<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: the first `length` values have been written.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl<T> DerefMut for Row<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: the first `length` values have been written.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl<T> Drop for Row<T> {
    fn drop(&mut self) {
        self.free();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address<T>(row: &Row<T>) -> usize {
        row.as_ptr() as usize
    }

    #[test]
    fn a_row_that_fills_a_line_begins_one() {
        for room in [LINE_SIZE / 8, 100, 1024] {
            let rows: [Row<u64>; 8] = core::array::from_fn(|_| Row::with_room(room));
            for row in &rows {
                assert_eq!(row.room(), room);
                assert_eq!(address(row) % LINE_SIZE, 0);
            }
        }
    }

    #[test]
    fn values_stay_while_the_row_grows_and_shrinks() {
        let mut row = Row::with_room(0);
        for value in 0..1000_u32 {
            row.push(value);
            assert_eq!(row.len(), value as usize + 1);
            assert_eq!(address(&row) % LINE_SIZE, 0);
        }
        assert!((1000..2048).contains(&row.room()));
        row.shrink_to(10);
        assert_eq!(row.room(), 1000);
        row[999] = 7;
        assert!((0..999).chain([7]).eq(row.iter().copied()));
        row.clear();
        assert!(row.is_empty());
        row.shrink_to(3);
        assert_eq!(row.room(), 3);
        row.push(5);
        assert_eq!(&*row, [5]);
        row.clear();
        row.shrink_to(0);
        assert_eq!(row.room(), 0);
    }
}
