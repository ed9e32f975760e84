//! What the system says of itself in files. All of it is for people to read: percolog decides by its own means.

use std::fs;
use std::path::{Path, PathBuf};

/// The end of the concurrency id in the kernel's rseq area: from this feature size on, it is there.
pub(crate) const CONCURRENCY_ID_END: u64 = 28;

/// The first line of a file, if there is one.
pub(crate) fn line_of(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().next()?.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

/// How much of the rseq area the kernel fills, as it tells each process at its start; `None` before Linux 6.3.
pub(crate) fn rseq_feature_size() -> Option<u64> {
    /// Of the kernel's `AT_RSEQ_FEATURE_SIZE`.
    const RSEQ_FEATURE_SIZE: usize = 27;
    let vector = fs::read("/proc/self/auxv").ok()?;
    auxiliary(&vector)
        .find(|&(key, _)| key == RSEQ_FEATURE_SIZE)
        .map(|(_, size)| size as u64)
}

/// The entries of an auxiliary vector: pairs of words in the processor's own byte order.
fn auxiliary(vector: &[u8]) -> impl Iterator<Item = (usize, usize)> {
    const WORD: usize = size_of::<usize>();
    let word = |bytes: &[u8]| {
        bytes
            .try_into()
            .map(usize::from_ne_bytes)
            .unwrap_or_default()
    };
    vector
        .chunks_exact(2 * WORD)
        .map(move |pair| (word(&pair[..WORD]), word(&pair[WORD..])))
}

/// NUMA nodes, where the system lists them.
pub(crate) fn numa_nodes() -> Option<usize> {
    let nodes = fs::read_dir("/sys/devices/system/node").ok()?;
    let count = nodes
        .filter_map(Result::ok)
        .filter(|entry| {
            entry
                .file_name()
                .to_str()
                .and_then(|name| name.strip_prefix("node"))
                .is_some_and(|number| number.parse::<u32>().is_ok())
        })
        .count();
    (count > 0).then_some(count)
}

/// How many CPUs' time the cgroups of this process may use; `None` without a limit.
pub(crate) fn cgroup_quota() -> Option<f64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    groups
        .lines()
        .filter_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            let root = if controllers.is_empty() {
                PathBuf::from("/sys/fs/cgroup")
            } else if controllers.split(',').any(|controller| controller == "cpu") {
                PathBuf::from("/sys/fs/cgroup/cpu")
            } else {
                return None;
            };
            tightest(&root, Path::new(path.trim_start_matches('/')))
        })
        .min_by(f64::total_cmp)
}

/// The smallest limit of a cgroup and all that contain it.
fn tightest(root: &Path, group: &Path) -> Option<f64> {
    group
        .ancestors()
        .filter_map(|ancestor| {
            let folder = root.join(ancestor);
            match line_of(folder.join("cpu.max")) {
                Some(limit) => {
                    let (quota, period) = limit.split_once(' ')?;
                    share(quota, period)
                }
                None => share(
                    &line_of(folder.join("cpu.cfs_quota_us"))?,
                    &line_of(folder.join("cpu.cfs_period_us"))?,
                ),
            }
        })
        .min_by(f64::total_cmp)
}

/// Quota over period; no limit if the quota is no number of microseconds (`max`, `-1`).
fn share(quota: &str, period: &str) -> Option<f64> {
    let quota: u64 = quota.parse().ok()?;
    let period: u64 = period.parse().ok()?;
    (period > 0).then(|| quota as f64 / period as f64)
}

/// Numbers in ascending order as ranges: `0-3,8,10-11`.
pub(crate) fn ranges(numbers: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    ranges
        .into_iter()
        .map(|(first, last)| {
            if first == last {
                first.to_string()
            } else {
                format!("{first}-{last}")
            }
        })
        .collect::<Vec<_>>()
        .join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_as_ranges() {
        assert_eq!(ranges(&[]), "");
        assert_eq!(ranges(&[0, 1, 2, 3, 8, 10, 11]), "0-3,8,10-11");
    }

    #[test]
    fn the_tightest_limit_of_all_levels_counts() {
        let root = tempfile::tempdir().expect("a folder");
        let inner = root.path().join("a/b");
        fs::create_dir_all(&inner).expect("folders");
        assert_eq!(tightest(root.path(), Path::new("a/b")), None);
        fs::write(inner.join("cpu.max"), "max 100000\n").expect("written");
        assert_eq!(tightest(root.path(), Path::new("a/b")), None);
        fs::write(root.path().join("a/cpu.max"), "150000 100000\n").expect("written");
        assert_eq!(tightest(root.path(), Path::new("a/b")), Some(1.5));
        fs::write(inner.join("cpu.max"), "50000 100000\n").expect("written");
        assert_eq!(tightest(root.path(), Path::new("a/b")), Some(0.5));
        // The older layout: a limit of -1 is none.
        let old = tempfile::tempdir().expect("a folder");
        fs::write(old.path().join("cpu.cfs_quota_us"), "-1\n").expect("written");
        fs::write(old.path().join("cpu.cfs_period_us"), "100000\n").expect("written");
        assert_eq!(tightest(old.path(), Path::new("")), None);
        fs::write(old.path().join("cpu.cfs_quota_us"), "200000\n").expect("written");
        assert_eq!(tightest(old.path(), Path::new("")), Some(2.0));
    }

    #[test]
    fn an_auxiliary_vector_is_read_in_pairs() {
        let bytes: Vec<u8> = [27_usize, 28, 0, 0]
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        assert_eq!(auxiliary(&bytes).collect::<Vec<_>>(), [(27, 28), (0, 0)]);
    }
}
