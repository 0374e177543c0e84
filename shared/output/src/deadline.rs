//! The deadline of a run, which counts from the start of the initializer: it leaves that moment in a file, so that the
//! supervisor's 124 comes before the Job's own deadline however long the preparation took.

use std::{fs, io, path::Path, time::Duration};

use rustix::time::{ClockId, clock_gettime};

/// Milliseconds of boot time: one clock for all containers of a node, which nobody can set.
pub fn boottime_ms() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let (seconds, nanoseconds) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
    seconds.unwrap_or_default() * 1000 + nanoseconds.unwrap_or_default() / 1_000_000
}

/// The start of the run as `path` has it. None where the file is missing or says nothing that could be: text, or a
/// moment after `now`, left before the node was booted again.
pub fn read_start(path: &Path, now: u64) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok().filter(|start| *start <= now)
}

/// Leaves `now` as the start of the run in `path`. A start that is there is kept: an initializer that is restarted must
/// not extend the deadline. Returns the start.
///
/// # Errors
/// The file cannot be written.
pub fn keep_start(path: &Path, now: u64) -> io::Result<u64> {
    if let Some(start) = read_start(path, now) {
        return Ok(start);
    }
    fs::write(path, now.to_string())?;
    Ok(now)
}

/// What is left at `now` of the limit in `AGENT_DEADLINE_MS`, counted from `start`; all in milliseconds of boot time.
/// None where the limit is no positive number: the deadline is off.
pub fn remaining(limit: Option<&str>, start: u64, now: u64) -> Option<Duration> {
    let limit = limit?.trim().parse::<u64>().ok().filter(|limit| *limit > 0)?;
    Some(Duration::from_millis(limit.saturating_sub(now.saturating_sub(start))))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn a_start_is_kept_by_whoever_comes_later() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stamp");
        assert_eq!(read_start(&path, 5000), None);
        assert_eq!(keep_start(&path, 5000).unwrap(), 5000);
        assert_eq!(keep_start(&path, 9000).unwrap(), 5000);
        assert_eq!(read_start(&path, 9000), Some(5000));
    }

    #[rstest]
    #[case::of_an_earlier_boot("9000")]
    #[case::no_number("soon")]
    #[case::empty("")]
    fn a_start_that_cannot_be_is_replaced(#[case] text: &str) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stamp");
        fs::write(&path, text).unwrap();
        assert_eq!(read_start(&path, 5000), None);
        assert_eq!(keep_start(&path, 5000).unwrap(), 5000);
        assert_eq!(read_start(&path, 5000), Some(5000));
    }

    #[rstest]
    #[case::counted_from_the_start(Some("50000"), 1000, 21_000, Some(30_000))]
    #[case::over(Some("50000"), 1000, 91_000, Some(0))]
    #[case::zero_is_off(Some("0"), 0, 0, None)]
    #[case::negative_is_off(Some("-10000"), 0, 0, None)]
    #[case::no_number_is_off(Some("soon"), 0, 0, None)]
    #[case::absent_is_off(None, 0, 0, None)]
    #[case::the_longest_of_case_18(Some("128849018810000"), 0, 0, Some(128_849_018_810_000))]
    fn the_limit_counts_from_the_start(
        #[case] limit: Option<&str>,
        #[case] start: u64,
        #[case] now: u64,
        #[case] left: Option<u64>,
    ) {
        assert_eq!(remaining(limit, start, now), left.map(Duration::from_millis));
    }

    #[test]
    fn boot_time_never_runs_backwards() {
        let first = boottime_ms();
        assert!(first > 0 && boottime_ms() >= first);
    }
}
