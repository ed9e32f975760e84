//! What the launcher tells the plugin: a file of `key value` lines.

use std::path::PathBuf;

use crate::model::{Machine, TICKS_PER_CYCLE, Ticks};
use crate::plugin::free::Wanted;
use crate::plugin::region::Skip;

/// The settings of a run.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The machine that is described.
    pub(crate) machine: Machine,
    /// How far a core may run ahead of the others on lines that it holds.
    pub(crate) run_ahead: Ticks,
    /// What random bytes are made from.
    pub(crate) seed: u64,
    /// The folder for results.
    pub(crate) result: PathBuf,
    /// Whether computed addresses are compared with those that QEMU reports.
    pub(crate) verify: bool,
    /// Files that the guest sees in the place of others.
    pub(crate) files: Vec<(String, String)>,
    /// The path of QEMU, to run what the guest executes.
    pub(crate) qemu: String,
    /// The path of this plugin, if it is a file of its own: see `image`.
    pub(crate) plugin: String,
    /// The path of the file with the settings.
    pub(crate) config: String,
    /// Whether executed programs are simulated too.
    pub(crate) follow: bool,
    /// Whether threads are held back where that is likely to show mistakes.
    pub(crate) chaos: bool,
    /// How many lines a result names.
    pub(crate) top_lines: usize,
    /// What is to cost nothing.
    pub(crate) free: Vec<Wanted>,
    /// Whether they are locks that nobody waits for.
    pub(crate) free_waits: bool,
    /// Whether objects and callers are found out.
    pub(crate) objects: bool,
    /// How much of the program is not simulated.
    pub(crate) skip: Skip,
    /// How many nanoseconds the part takes that counts.
    pub(crate) lasts: Option<u64>,
    /// The functions that are the region, as the linker calls them.
    pub(crate) region_functions: Vec<String>,
}

impl Settings {
    /// Reads the settings from the text of the file at `config`.
    pub(crate) fn parse(text: &str, config: &str) -> Result<Settings, String> {
        let mut machine = String::new();
        let mut settings = Settings {
            machine: Machine::flat("none", 1),
            run_ahead: 0,
            seed: 1,
            result: PathBuf::new(),
            verify: false,
            files: Vec::new(),
            qemu: String::new(),
            plugin: String::new(),
            config: config.to_owned(),
            follow: true,
            chaos: false,
            top_lines: 64,
            free: Vec::new(),
            free_waits: false,
            objects: true,
            skip: Skip::Nothing,
            lasts: None,
            region_functions: Vec::new(),
        };
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let (key, value) = line.split_once(' ').unwrap_or((line, ""));
            let number = || {
                value
                    .parse::<u64>()
                    .map_err(|_| format!("`{key}` is `{value}`, which is no number"))
            };
            match key {
                "run_ahead" => settings.run_ahead = number()?.saturating_mul(TICKS_PER_CYCLE),
                "seed" => settings.seed = number()?,
                "result" => settings.result = PathBuf::from(value),
                "verify" => settings.verify = number()? != 0,
                "follow" => settings.follow = number()? != 0,
                "chaos" => settings.chaos = number()? != 0,
                "free_waits" => settings.free_waits = number()? != 0,
                "top_lines" => {
                    settings.top_lines = usize::try_from(number()?).unwrap_or(usize::MAX)
                }
                "free" => settings.free.push(
                    Wanted::parse(value).ok_or_else(|| format!("`free` cannot be `{value}`"))?,
                ),
                "objects" => settings.objects = number()? != 0,
                "skip_time" => settings.skip = Skip::Time(number()?),
                "skip_instructions" => settings.skip = Skip::Instructions(number()?),
                "skip_to_region" => settings.skip = Skip::Region,
                "lasts" => settings.lasts = Some(number()?),
                "region_function" => settings.region_functions.push(value.to_owned()),
                "qemu" => value.clone_into(&mut settings.qemu),
                "plugin" => value.clone_into(&mut settings.plugin),
                "file" => {
                    let (guest, real) = value
                        .split_once(' ')
                        .ok_or_else(|| format!("`file` needs two paths, not `{value}`"))?;
                    settings.files.push((guest.to_owned(), real.to_owned()));
                }
                _ => match key.strip_prefix("machine.") {
                    Some(field) => {
                        machine.push_str(field);
                        machine.push(' ');
                        machine.push_str(value);
                        machine.push('\n');
                    }
                    None => return Err(format!("there is no setting `{key}`")),
                },
            }
        }
        settings.machine = Machine::from_lines(&machine)?;
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::{Settings, Wanted};
    use crate::model::{Machine, TICKS_PER_CYCLE};

    fn lines() -> String {
        Machine::flat("two", 2)
            .to_lines()
            .lines()
            .map(|line| format!("machine.{line}\n"))
            .collect()
    }

    #[test]
    fn everything_that_is_written_is_read() {
        let text = format!(
            "run_ahead 7\nseed 9\nresult /r e s\nverify 1\nfollow 0\nchaos 1\ntop_lines 3\nqemu /q\nplugin /p\n\
             free 0 address 64\nfile /proc/cpuinfo /tmp/with space\n{}",
            lines()
        );
        let settings = Settings::parse(&text, "/c").unwrap();
        assert_eq!(settings.run_ahead, 7 * TICKS_PER_CYCLE);
        assert_eq!((settings.seed, settings.top_lines), (9, 3));
        assert_eq!(settings.result.to_str(), Some("/r e s"));
        assert!(settings.verify && !settings.follow && settings.chaos);
        assert_eq!(
            settings.files,
            [("/proc/cpuinfo".to_owned(), "/tmp/with space".to_owned())]
        );
        assert_eq!(settings.free, [Wanted::parse("0 address 64").unwrap()]);
        assert_eq!(settings.machine, Machine::flat("two", 2));
        assert_eq!(settings.config, "/c");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, named) in [
            ("seed many", "`seed` is `many`"),
            ("speed 3", "no setting `speed`"),
            ("file /proc/cpuinfo", "two paths"),
            ("free 0 lunch", "`free` cannot be `0 lunch`"),
        ] {
            let error = Settings::parse(&format!("{text}\n{}", lines()), "/c").unwrap_err();
            assert!(error.contains(named), "{error}");
        }
        assert!(Settings::parse("seed 1\n", "/c").is_err(), "no machine");
    }
}
