//! A machine as lines of text: how the launcher hands it to the plugin, which has no TOML reader.

use super::{Coherence, Costs, Machine, Occupancy, Protocol, Stores, Units};
use std::fmt::{Display, Write as _};
use std::str::FromStr;

/// Numbers with commas between.
fn list<T: Display>(numbers: &[T]) -> String {
    numbers
        .iter()
        .map(T::to_string)
        .collect::<Vec<_>>()
        .join(",")
}

impl Machine {
    /// The machine as lines `key value`, each ended by a newline, which [`Machine::from_lines`]
    /// reads.
    pub fn to_lines(&self) -> String {
        let Machine {
            name,
            cores,
            chips,
            cores_per_chip,
            threads_per_core,
            hops,
            megahertz,
            line_size,
            page_size,
            protocol,
            coherence,
            chip_directory,
            adjacent_line_prefetch,
            transfer,
            memory,
            memory_occupancy,
            last_level_cache,
            occupancy,
            invalidate_per_sharer,
            probe,
            bus,
            costs,
            time_slice,
            stores,
        } = self;
        let Occupancy {
            read,
            write,
            upgrade,
        } = occupancy;
        let Costs {
            plain,
            width,
            units,
            locked,
            fence,
            rdtsc,
            rdtscp,
            pause,
            cpuid,
            syscall,
            switch,
            interrupt,
            smt_slowdown,
        } = costs;
        let Units {
            load,
            store,
            branch,
            multiply,
            divide,
            float,
            float_divide,
        } = units;
        let protocol = match protocol {
            Protocol::Mesi => "mesi",
            Protocol::Moesi => "moesi",
        };
        let coherence = match coherence {
            Coherence::Directory => "directory",
            Coherence::Bus => "bus",
        };
        let stores = match stores {
            Stores::Blocking => "blocking".to_owned(),
            Stores::Buffered(entries) => format!("buffered {entries}"),
        };
        let hops = hops
            .iter()
            .map(|row| list(row))
            .collect::<Vec<_>>()
            .join(";");
        let mut text = String::new();
        let pairs: [(&str, &dyn Display); 44] = [
            ("name", name),
            ("cores", cores),
            ("chips", chips),
            ("cores_per_chip", cores_per_chip),
            ("threads_per_core", threads_per_core),
            ("hops", &hops),
            ("megahertz", megahertz),
            ("line_size", line_size),
            ("page_size", page_size),
            ("protocol", &protocol),
            ("coherence", &coherence),
            ("chip_directory", chip_directory),
            ("adjacent_line_prefetch", adjacent_line_prefetch),
            ("transfer", &list(transfer)),
            ("memory", &list(memory)),
            ("memory_occupancy", memory_occupancy),
            ("last_level_cache", last_level_cache),
            ("occupancy.read", read),
            ("occupancy.write", write),
            ("occupancy.upgrade", upgrade),
            ("invalidate_per_sharer", invalidate_per_sharer),
            ("probe", &list(probe)),
            ("bus", bus),
            ("costs.plain", plain),
            ("costs.width", width),
            ("units.load", load),
            ("units.store", store),
            ("units.branch", branch),
            ("units.multiply", multiply),
            ("units.divide", divide),
            ("units.float", float),
            ("units.float_divide", float_divide),
            ("costs.locked", locked),
            ("costs.fence", fence),
            ("costs.rdtsc", rdtsc),
            ("costs.rdtscp", rdtscp),
            ("costs.pause", pause),
            ("costs.cpuid", cpuid),
            ("costs.syscall", syscall),
            ("costs.switch", switch),
            ("costs.interrupt", interrupt),
            ("costs.smt_slowdown", smt_slowdown),
            ("time_slice", time_slice),
            ("stores", &stores),
        ];
        for (key, value) in pairs {
            let _ = writeln!(text, "{key} {value}");
        }
        text
    }

    /// Reads what [`Machine::to_lines`] wrote. Empty lines are skipped; every key must be there
    /// once.
    ///
    /// # Errors
    /// Says which line is wrong and why, or which is missing, or what [`Machine::check`] has
    /// against the machine.
    pub fn from_lines(text: &str) -> Result<Machine, String> {
        let mut lines = Lines::split(text)?;
        let machine = Machine {
            name: lines.take("name")?.to_owned(),
            cores: lines.number("cores")?,
            chips: lines.number("chips")?,
            cores_per_chip: lines.number("cores_per_chip")?,
            threads_per_core: lines.number("threads_per_core")?,
            hops: {
                let rows = lines.take("hops")?;
                rows.split(';')
                    .map(|row| numbers("hops", row))
                    .collect::<Result<_, _>>()?
            },
            megahertz: lines.number("megahertz")?,
            line_size: lines.number("line_size")?,
            page_size: lines.number("page_size")?,
            protocol: match lines.take("protocol")? {
                "mesi" => Protocol::Mesi,
                "moesi" => Protocol::Moesi,
                other => return Err(format!("protocol {other:?}: must be mesi or moesi")),
            },
            coherence: match lines.take("coherence")? {
                "directory" => Coherence::Directory,
                "bus" => Coherence::Bus,
                other => return Err(format!("coherence {other:?}: must be directory or bus")),
            },
            chip_directory: lines.number("chip_directory")?,
            adjacent_line_prefetch: lines.number("adjacent_line_prefetch")?,
            transfer: numbers("transfer", lines.take("transfer")?)?,
            memory: numbers("memory", lines.take("memory")?)?,
            memory_occupancy: lines.number("memory_occupancy")?,
            last_level_cache: lines.number("last_level_cache")?,
            occupancy: Occupancy {
                read: lines.number("occupancy.read")?,
                write: lines.number("occupancy.write")?,
                upgrade: lines.number("occupancy.upgrade")?,
            },
            invalidate_per_sharer: lines.number("invalidate_per_sharer")?,
            probe: numbers("probe", lines.take("probe")?)?,
            bus: lines.number("bus")?,
            costs: Costs {
                plain: lines.number("costs.plain")?,
                width: lines.number("costs.width")?,
                units: Units {
                    load: lines.number("units.load")?,
                    store: lines.number("units.store")?,
                    branch: lines.number("units.branch")?,
                    multiply: lines.number("units.multiply")?,
                    divide: lines.number("units.divide")?,
                    float: lines.number("units.float")?,
                    float_divide: lines.number("units.float_divide")?,
                },
                locked: lines.number("costs.locked")?,
                fence: lines.number("costs.fence")?,
                rdtsc: lines.number("costs.rdtsc")?,
                rdtscp: lines.number("costs.rdtscp")?,
                pause: lines.number("costs.pause")?,
                cpuid: lines.number("costs.cpuid")?,
                syscall: lines.number("costs.syscall")?,
                switch: lines.number("costs.switch")?,
                interrupt: lines.number("costs.interrupt")?,
                smt_slowdown: lines.number("costs.smt_slowdown")?,
            },
            time_slice: lines.number("time_slice")?,
            stores: match lines.take("stores")? {
                "blocking" => Stores::Blocking,
                other => match other.strip_prefix("buffered ") {
                    Some(entries) => Stores::Buffered(number("stores", entries)?),
                    None => {
                        return Err(format!("stores {other:?}: must be blocking or buffered N"));
                    }
                },
            },
        };
        lines.finish()?;
        machine.check()?;
        Ok(machine)
    }
}

/// The lines that have not been read yet.
struct Lines<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Lines<'a> {
    fn split(text: &'a str) -> Result<Self, String> {
        text.lines()
            .filter(|line| !line.trim().is_empty())
            .map(|line| {
                line.split_once(' ')
                    .ok_or_else(|| format!("{line:?}: must be a key and a value"))
            })
            .collect::<Result<_, _>>()
            .map(Lines)
    }

    fn take(&mut self, key: &str) -> Result<&'a str, String> {
        let position = self.0.iter().position(|(found, _)| *found == key);
        let position = position.ok_or_else(|| format!("{key}: is missing"))?;
        Ok(self.0.swap_remove(position).1.trim())
    }

    fn number<T: FromStr>(&mut self, key: &str) -> Result<T, String> {
        number(key, self.take(key)?)
    }

    fn finish(self) -> Result<(), String> {
        match self.0.first() {
            Some((key, _)) => Err(format!("{key}: is not a key, or is there twice")),
            None => Ok(()),
        }
    }
}

fn number<T: FromStr>(key: &str, text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("{key} {text:?}: is not a value that {key} can have"))
}

fn numbers<T: FromStr>(key: &str, text: &str) -> Result<Vec<T>, String> {
    text.split(',').map(|text| number(key, text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        let mut machine = Machine::flat("two words", 5);
        machine.chips = 2;
        machine.cores_per_chip = 3;
        machine.threads_per_core = 2;
        machine.costs.smt_slowdown = 300;
        machine.hops = vec![vec![0, 1], vec![1, 0]];
        machine.transfer = vec![11, 12];
        machine.memory = vec![13, 14, 15];
        machine.memory_occupancy = 16;
        machine.protocol = Protocol::Moesi;
        machine.coherence = Coherence::Bus;
        machine.chip_directory = true;
        machine.adjacent_line_prefetch = true;
        machine.probe = vec![7, 8];
        machine.occupancy = Occupancy {
            read: 1,
            write: 2,
            upgrade: 3,
        };
        machine.stores = Stores::Buffered(56);
        machine
    }

    #[test]
    fn what_is_written_is_read() {
        for machine in [Machine::flat("flat", 48), machine()] {
            assert_eq!(Machine::from_lines(&machine.to_lines()), Ok(machine));
        }
    }

    #[test]
    fn no_two_keys_share_a_value_by_mistake() {
        // Numbers that are all different: a key read into another's field would be seen.
        let text = machine().to_lines();
        let mut next = 100;
        let text: String = text
            .lines()
            .map(|line| {
                let (key, _) = line.split_once(' ').unwrap();
                next += 1;
                if key == "costs.width" {
                    "costs.width 7\n".to_owned()
                } else if key == "costs.smt_slowdown" {
                    format!("{line}\n")
                } else if key.starts_with("costs.")
                    || key.starts_with("units.")
                    || key == "bus"
                    || key == "time_slice"
                {
                    format!("{key} {next}\n")
                } else {
                    format!("{line}\n")
                }
            })
            .collect();
        assert_eq!(Machine::from_lines(&text).unwrap().to_lines(), text);
    }

    #[test]
    fn wrong_lines_are_named() {
        let text = machine().to_lines();
        let drop_line = |key: &str| {
            let keep = |line: &&str| !line.starts_with(&format!("{key} "));
            text.lines()
                .filter(keep)
                .map(|line| format!("{line}\n"))
                .collect::<String>()
        };
        for (key, bad) in [
            ("cores", "cores many"),
            ("hops", "hops 0,x;1,0"),
            ("protocol", "protocol dragon"),
            ("coherence", "coherence none"),
            ("stores", "stores buffered"),
            ("probe", "probe soon"),
            ("costs.plain", "costs.plain -1"),
            ("chip_directory", "chip_directory 1"),
            ("adjacent_line_prefetch", "adjacent_line_prefetch 1"),
        ] {
            let missing = Machine::from_lines(&drop_line(key)).unwrap_err();
            assert!(
                missing.contains(key) && missing.contains("missing"),
                "{missing}"
            );
            let wrong = Machine::from_lines(&(drop_line(key) + bad)).unwrap_err();
            assert!(wrong.starts_with(key), "{wrong}");
        }
        for endless in ["costs.width 17", "costs.plain 0"] {
            let (key, _) = endless.split_once(' ').unwrap();
            let wrong = Machine::from_lines(&(drop_line(key) + endless)).unwrap_err();
            assert!(wrong.contains("time must pass"), "{wrong}");
        }
        assert!(
            Machine::from_lines(&(text.clone() + "bus 3\n"))
                .unwrap_err()
                .contains("twice")
        );
        assert!(
            Machine::from_lines(&(text.clone() + "colour\n"))
                .unwrap_err()
                .contains("colour")
        );
        // What is well formed but describes no machine is refused too.
        let wrong = text.replace("line_size 64", "line_size 65");
        assert!(
            Machine::from_lines(&wrong)
                .unwrap_err()
                .contains("power of two")
        );
    }
}
