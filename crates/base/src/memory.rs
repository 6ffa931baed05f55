//! The memory of this machine.

use std::fs;
use std::path::{Path, PathBuf};

/// Number of bytes that can still be allocated: the kernel's estimate of memory available without
/// swapping, or what the limits of the process's control groups (version 2) and of its address space
/// (`ulimit -v`) leave, if that is less. `None` if none of them is known.
#[must_use]
pub fn available() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = groups_of(&groups).into_iter().filter_map(|group| left(&group));
    of_machine(&meminfo).into_iter().chain(limits).chain(crate::process::space_left()).min()
}

/// Parses the line `MemAvailable:  1234 kB`.
fn of_machine(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let number: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    number.checked_mul(1 << 10)
}

/// The directories of a process's control group and of its ancestors.
fn groups_of(groups: &str) -> Vec<PathBuf> {
    let Some(own) = groups.lines().find_map(|line| line.strip_prefix("0::/")) else {
        return Vec::new();
    };
    let root = Path::new("/sys/fs/cgroup");
    root.join(own).ancestors().take_while(|path| path.starts_with(root)).map(Into::into).collect()
}

/// Number of bytes that a control group can still allocate; `None` if it has no limit.
fn left(group: &Path) -> Option<u64> {
    let number = |name: &str| -> Option<u64> {
        fs::read_to_string(group.join(name)).ok()?.trim().parse().ok()
    };
    Some(number("memory.max")?.saturating_sub(number("memory.current")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_reports_available_memory() {
        assert_eq!(of_machine("MemTotal: 9 kB\nMemAvailable:    1024 kB\n"), Some(1 << 20));
        assert_eq!(of_machine("MemTotal: 9 kB\n"), None);
        assert!(available().is_some_and(|bytes| bytes > 1 << 20));
    }

    #[test]
    fn a_control_group_has_a_limit_less_what_is_taken() {
        let group = tempfile::tempdir().unwrap();
        assert_eq!(left(group.path()), None);
        fs::write(group.path().join("memory.current"), "300\n").unwrap();
        fs::write(group.path().join("memory.max"), "max\n").unwrap();
        assert_eq!(left(group.path()), None);
        fs::write(group.path().join("memory.max"), "1000\n").unwrap();
        assert_eq!(left(group.path()), Some(700));
        let all = groups_of("1:cpu:/x\n0::/a/b\n");
        assert_eq!(
            all,
            ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"].map(PathBuf::from)
        );
        assert_eq!(groups_of("1:cpu:/x\n"), Vec::<PathBuf>::new());
    }
}
