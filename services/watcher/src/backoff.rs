use std::time::Duration;

use kube::runtime::utils::Backoff;

/// The shortest pause after an error.
const FLOOR: u64 = 2;
/// The highest ceiling of a pause.
const CEILING: u64 = 60;

/// The pause of a watch after its n-th error in a row: 2 s, and at random up to a ceiling of min(2·2ⁿ, 60) s, so that
/// the watches of all kinds do not come back at the same moment.
#[derive(Default)]
pub(crate) struct WatchBackoff {
    errors: u32,
}

impl Iterator for WatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.errors = self.errors.saturating_add(1);
        let spread = ceiling(self.errors) - FLOOR;
        Some(Duration::from_secs(FLOOR) + Duration::from_secs(spread).mul_f64(rand::random()))
    }
}

impl Backoff for WatchBackoff {
    fn reset(&mut self) {
        self.errors = 0;
    }
}

fn ceiling(errors: u32) -> u64 {
    2u64.saturating_pow(errors.saturating_add(1)).min(CEILING)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ceiling_doubles_up_to_a_minute() {
        let ceilings: Vec<_> = (1..=7).map(ceiling).collect();
        assert_eq!(ceilings, [4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(ceiling(u32::MAX), 60);
    }

    #[test]
    fn case_60_an_error_pauses_two_seconds_and_more_each_time_and_success_resets_it() {
        let mut backoff = WatchBackoff::default();
        for errors in 1..=10 {
            let pause = backoff.next().unwrap();
            assert!(pause >= Duration::from_secs(2) && pause <= Duration::from_secs(ceiling(errors)), "{pause:?}");
        }
        backoff.reset();
        assert!(backoff.next().unwrap() <= Duration::from_secs(4));
    }
}
