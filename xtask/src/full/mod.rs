//! `cargo xtask full`: everything there is to check, in parts that can be run one after another, on several machines, and again.
//!
//! A step that has passed is not run again while nothing that it depends on has changed: its files, its mutations, and the compiler. The
//! steps are divided into shards by how long they take; who has the same tree divides them in the same way.

mod passed;
mod tree;

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, Result, bail};

use self::passed::{Passed, Stamp};
use self::tree::Tree;
use crate::report::Report;
use crate::steps::{Job, Step};
use crate::tools::Tools;
use crate::workspace::Workspace;

/// How many shards are named where none is asked for.
const SHARDS: usize = 7;

/// What to run, or to show.
#[derive(clap::Args)]
pub(crate) struct Selection {
    /// Run the second of six parts, each of about the same time
    #[arg(long, value_name = "K/N")]
    shard: Option<Shard>,
    /// Write what was checked, with counts and times, as JSON
    #[arg(long, value_name = "FILE")]
    stamp: Option<PathBuf>,
    /// Run again what has passed before
    #[arg(long)]
    again: bool,
    /// Print the steps with their shards, and run none
    #[arg(long)]
    list: bool,
    /// Print the steps that a change of this file or folder asks for; may be given several times
    #[arg(long = "for", value_name = "PATH")]
    changed_paths: Vec<String>,
    /// Print the steps that the changes since this commit ask for
    #[arg(long, value_name = "BASE", num_args = 0..=1, default_missing_value = "main")]
    changed: Option<String>,
}

/// One of several parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shard {
    /// From 1.
    number: usize,
    of: usize,
}

impl FromStr for Shard {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let parsed = text
            .split_once('/')
            .and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match parsed {
            Some((number, of)) if (1..=of).contains(&number) => Ok(Self { number, of }),
            _ => bail!("`{text}` is no shard such as 2/6"),
        }
    }
}

impl Selection {
    /// Prints what was asked for instead of running it, if that was asked for.
    pub(crate) fn show(&self, workspace: &Workspace, steps: &[Step]) -> Result<bool> {
        let mut paths = self.changed_paths.clone();
        if let Some(base) = &self.changed {
            paths.extend(tree::changed(&workspace.root, base)?);
        }
        let asked = !self.changed_paths.is_empty() || self.changed.is_some();
        if !asked && !self.list {
            return Ok(false);
        }
        let of = self.shard.map_or(SHARDS, |shard| shard.of);
        let mut needed: Vec<usize> = Vec::new();
        let mut minutes = 0;
        println!("shard  minutes  step");
        for (step, shard) in steps.iter().zip(shards(steps, of)) {
            if (!asked || paths.iter().any(|path| step.depends_on(path)))
                && self.shard.is_none_or(|wanted| wanted.number == shard)
            {
                println!("{shard:>3}/{of} {:>8}  {}", step.minutes, step.name);
                needed.push(shard);
                minutes += step.minutes;
            }
        }
        needed.sort_unstable();
        needed.dedup();
        println!(
            "{minutes} minutes, in {} of {of} shards: {needed:?}",
            needed.len()
        );
        Ok(true)
    }

    /// Runs the steps of the shard, or all, and writes the stamp.
    pub(crate) fn run(
        &self,
        workspace: &Workspace,
        tools: &Tools,
        report: &mut Report,
        steps: &[Step],
    ) -> Result<()> {
        let tree = Tree::of(workspace)?;
        let compiler = tree::compiler()?;
        let state = workspace.target_for("full").join("passed.json");
        let mut passed = Passed::read(&state)?;
        let mut stamp = Stamp::new(
            &tree,
            &compiler,
            self.shard.map(|shard| (shard.number, shard.of)),
        );
        let of = self.shard.map_or(1, |shard| shard.of);
        for (step, shard) in steps.iter().zip(shards(steps, of)) {
            if self.shard.is_some_and(|wanted| wanted.number != shard) {
                continue;
            }
            let key = tree.key(step, &compiler)?;
            if let Some(earlier) = passed.find(&step.name, &key).filter(|_| !self.again) {
                report.earlier(&step.name, earlier.took(), earlier.counts());
                stamp.add(earlier.clone());
            } else {
                let before = report.len();
                step.run(&mut Job {
                    workspace,
                    tools,
                    report,
                    full: true,
                });
                let done = passed::Done::of(&step.name, key, report.rows_from(before));
                if done.is_incomplete() {
                    println!("   not remembered as passed: what was skipped runs the next time");
                }
                passed.add(&done);
                passed.write(&state)?;
                stamp.add(done);
            }
            if let Some(file) = &self.stamp {
                stamp
                    .write(file)
                    .with_context(|| format!("writing {}", file.display()))?;
            }
        }
        Ok(())
    }
}

/// The shard of each step, from 1: the longest step first, each into the shard that has the least to do so far.
fn shards(steps: &[Step], of: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..steps.len()).collect();
    order.sort_by(|&a, &b| {
        let key = |at: usize| (std::cmp::Reverse(steps[at].minutes), &steps[at].name);
        key(a).cmp(&key(b))
    });
    let mut load = vec![0; of];
    let mut shards = vec![0; steps.len()];
    for at in order {
        let least = (0..of).min_by_key(|&shard| load[shard]).unwrap_or_default();
        load[least] += steps[at].minutes;
        shards[at] = least + 1;
    }
    shards
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{mutate, steps};

    /// The longest that a shard may take.
    const LONGEST: u32 = 60;

    fn all() -> Vec<Step> {
        let workspace = Workspace::find().unwrap();
        steps::all(&workspace.root, &mutate::read(&workspace.root).unwrap())
    }

    #[test]
    fn no_shard_takes_longer_than_an_hour() {
        let steps = all();
        let shards = shards(&steps, SHARDS);
        for shard in 1..=SHARDS {
            let minutes: u32 = steps
                .iter()
                .zip(&shards)
                .filter(|(_, of)| **of == shard)
                .map(|(step, _)| step.minutes)
                .sum();
            assert!(
                (1..=LONGEST).contains(&minutes),
                "{shard}: {minutes} minutes"
            );
        }
    }

    #[test]
    fn one_shard_has_everything() {
        assert!(shards(&all(), 1).iter().all(|&shard| shard == 1));
    }

    #[test]
    fn shards_are_numbered_from_one() {
        let parse = |text: &str| text.parse::<Shard>();
        assert_eq!(parse("2/6").unwrap(), Shard { number: 2, of: 6 });
        for wrong in ["0/6", "7/6", "2", "a/b", "2/6/1", "0/0"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
