//! The arguments of a program to be executed, as they lie in memory.

use crate::plugin::syscalls::Scratch;

/// An argument of the program to be executed.
enum Argument {
    /// A string that is written, at this offset.
    Written(usize),
    /// A string that the guest has.
    Guests(u64),
}

/// Strings and the table that refers to them, as they will lie in memory.
pub(super) struct Layout {
    strings: Vec<u8>,
    arguments: Vec<Argument>,
    /// Where the table begins.
    pub(super) table: usize,
}

impl Layout {
    /// The emulator's command, what the program calls itself, the program, and its arguments. The path of the emulator
    /// comes first.
    pub(super) fn new(
        command: &[Vec<u8>],
        program: &[u8],
        words: &[Vec<u8>],
        guests: &[u64],
    ) -> Layout {
        let mut layout = Layout {
            strings: Vec::new(),
            arguments: Vec::new(),
            table: 0,
        };
        for word in command {
            layout.push(word);
        }
        layout.push(b"-0");
        let mut words = words.iter();
        match (words.next(), guests.first()) {
            (Some(name), _) => layout.push(name),
            (None, Some(&name)) => layout.arguments.push(Argument::Guests(name)),
            (None, None) => layout.push(b""),
        }
        layout.push(program);
        for word in words {
            layout.push(word);
        }
        let rest = guests
            .iter()
            .skip(1)
            .map(|&address| Argument::Guests(address));
        layout.arguments.extend(rest);
        layout.table = layout.strings.len().next_multiple_of(8);
        layout
    }

    fn push(&mut self, word: &[u8]) {
        self.arguments.push(Argument::Written(self.strings.len()));
        self.strings.extend_from_slice(word);
        self.strings.push(0);
    }

    /// Writes them below a stack. Returns their address, and how to put back what was there.
    pub(super) fn write(&self, stack: u64) -> Option<(u64, Scratch)> {
        let length = self.table + 8 * (self.arguments.len() + 1);
        let bytes = self.bytes(Scratch::place(stack, length)?);
        Scratch::write(stack, &bytes)
    }

    /// The bytes, for memory at `address`.
    fn bytes(&self, address: u64) -> Vec<u8> {
        let mut bytes = self.strings.clone();
        bytes.resize(self.table, 0);
        for argument in &self.arguments {
            let pointer = match argument {
                Argument::Written(offset) => address + *offset as u64,
                Argument::Guests(pointer) => *pointer,
            };
            bytes.extend(pointer.to_le_bytes());
        }
        bytes.extend([0; 8]);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_refers_to_the_strings_before_it() {
        let command = [b"q".to_vec(), b"-plugin".to_vec()];
        let read = |bytes: &[u8], address: u64, layout: &Layout| {
            let words = bytes[layout.table..].chunks_exact(8);
            words
                .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
                .map(|pointer| match pointer.checked_sub(address) {
                    Some(offset) if (offset as usize) < layout.table => {
                        let string = &bytes[offset as usize..];
                        let end = string.iter().position(|&byte| byte == 0).expect("its end");
                        String::from_utf8_lossy(&string[..end]).into_owned()
                    }
                    _ => pointer.to_string(),
                })
                .collect::<Vec<_>>()
        };
        let layout = Layout::new(&command, b"/bin/x", &[], &[11, 12, 13]);
        let bytes = layout.bytes(4096);
        assert_eq!(
            read(&bytes, 4096, &layout),
            ["q", "-plugin", "-0", "11", "/bin/x", "12", "13", "0"]
        );
        let words = [b"/bin/sh".to_vec(), b"-e".to_vec(), b"script".to_vec()];
        let layout = Layout::new(&command, b"/bin/sh", &words, &[11, 12]);
        let bytes = layout.bytes(4096);
        let expected = [
            "q", "-plugin", "-0", "/bin/sh", "/bin/sh", "-e", "script", "12", "0",
        ];
        assert_eq!(read(&bytes, 4096, &layout), expected);
        let layout = Layout::new(&command, b"/bin/x", &[], &[]);
        assert_eq!(
            read(&layout.bytes(8), 8, &layout),
            ["q", "-plugin", "-0", "", "/bin/x", "0"]
        );
    }
}
