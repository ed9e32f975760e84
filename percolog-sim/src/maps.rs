//! Mappings of a process, as `/proc/self/maps` lists them. The library and the plugin both read that file.

/// One mapping.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(dead_code, reason = "the library and the plugin use different fields")]
pub(crate) struct Mapping {
    /// First address.
    pub(crate) start: u64,
    /// The address behind the last one.
    pub(crate) end: u64,
    /// Whether it can be read, written or executed at all.
    pub(crate) accessible: bool,
    /// Whether it can be written.
    pub(crate) writable: bool,
    /// Whether other processes may see what is written there.
    pub(crate) shared: bool,
    /// Offset of the first address in the file.
    pub(crate) offset: u64,
    /// The device and the number of the file: memory without a name that is shared has both.
    pub(crate) device: String,
    pub(crate) inode: u64,
    /// The file, a kind in brackets, or nothing.
    pub(crate) name: String,
}

impl Mapping {
    /// Parses `start-end rights offset device inode name`.
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let rights = fields.next()?;
        let offset = fields.next()?;
        let device = fields.next()?;
        let inode = fields.next()?.parse().ok()?;
        let name = fields.next().unwrap_or_default().trim();
        let hex = |text| u64::from_str_radix(text, 16).ok();
        Some(Self {
            start: hex(start)?,
            end: hex(end)?,
            accessible: !rights.starts_with("---"),
            writable: rights.contains('w'),
            shared: rights.ends_with('s'),
            offset: hex(offset)?,
            device: device.to_owned(),
            inode,
            name: name.to_owned(),
        })
    }

    /// Whether an address lies in it.
    pub(crate) fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// Whether a file is mapped, rather than memory without one.
    pub(crate) fn is_file(&self) -> bool {
        self.name.starts_with('/')
    }
}

/// The mappings in the text of `/proc/self/maps`. Skips lines that are none.
pub(crate) fn parse(text: &str) -> impl Iterator<Item = Mapping> + '_ {
    text.lines().filter_map(Mapping::parse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_read_with_and_without_names() {
        let line =
            "4000004000-4000005000 rw-s 00003000 fe:00 9995327                        /tmp/a file";
        let mapping = Mapping {
            start: 0x40_0000_4000,
            end: 0x40_0000_5000,
            accessible: true,
            writable: true,
            shared: true,
            offset: 0x3000,
            device: "fe:00".to_owned(),
            inode: 9_995_327,
            name: "/tmp/a file".to_owned(),
        };
        assert_eq!(Mapping::parse(line), Some(mapping));
        let line = "4000005000-4000026000 ---p 00000000 00:00 0 ";
        let none = Mapping::parse(line).expect("it is one");
        assert_eq!((none.accessible, none.shared), (false, false));
        assert_eq!((none.name.as_str(), none.is_file()), ("", false));
        assert!(none.contains(0x40_0002_5fff) && !none.contains(0x40_0002_6000));
        assert_eq!(parse("nonsense\n\n").count(), 0);
    }
}
