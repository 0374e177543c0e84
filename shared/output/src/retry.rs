//! How often and how long apart a delivery is tried: `docs/contract/agents.md` section 12.4.

use std::time::Duration;

/// The retries of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// How often it is tried in all, at least once.
    pub attempts: u32,
    /// The delay after the first try, doubled after each.
    pub base: Duration,
    /// The longest delay.
    pub max: Duration,
}

impl Retry {
    /// Reads the variables `AGENT_SINK_RETRY_ATTEMPTS` (3), `AGENT_SINK_RETRY_BASE_MS` (200) and
    /// `AGENT_SINK_RETRY_MAX_MS` (5000). A negative number counts as 0, no number as the default, a huge one as the
    /// largest there is; at least one try is made.
    pub fn from_env(env: impl Fn(&str) -> Option<String>) -> Self {
        let number = |name: &str, default| env(name).and_then(|text| natural(&text)).unwrap_or(default);
        Self {
            attempts: u32::try_from(number("AGENT_SINK_RETRY_ATTEMPTS", 3)).unwrap_or(u32::MAX).max(1),
            base: Duration::from_millis(number("AGENT_SINK_RETRY_BASE_MS", 200)),
            max: Duration::from_millis(number("AGENT_SINK_RETRY_MAX_MS", 5000)),
        }
    }

    /// The delay after try number `attempt`, counted from 1.
    pub fn delay(&self, attempt: u32) -> Duration {
        let factor = 1u32.checked_shl(attempt.saturating_sub(1)).unwrap_or(u32::MAX);
        self.base.saturating_mul(factor).min(self.max)
    }
}

/// A whole number of any length, clamped to what fits.
fn natural(text: &str) -> Option<u64> {
    let text = text.trim();
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(if negative { 0 } else { digits.parse().unwrap_or(u64::MAX) })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn retry(attempts: &str, base: &str, max: &str) -> Retry {
        Retry::from_env(|name| {
            let value = match name {
                "AGENT_SINK_RETRY_ATTEMPTS" => attempts,
                "AGENT_SINK_RETRY_BASE_MS" => base,
                "AGENT_SINK_RETRY_MAX_MS" => max,
                _ => "",
            };
            (!value.is_empty()).then(|| value.to_owned())
        })
    }

    #[test]
    fn without_variables_there_are_three_tries_200_milliseconds_apart_and_up_to_5_seconds() {
        let retry = retry("", "", "");
        assert_eq!(retry.attempts, 3);
        let delays: Vec<_> = (1..=7).map(|attempt| retry.delay(attempt).as_millis()).collect();
        assert_eq!(delays, [200, 400, 800, 1600, 3200, 5000, 5000]);
    }

    #[rstest]
    #[case::zero("0", "0", "0", 1, 0)]
    #[case::negative("-5", "-1", "-1", 1, 0)]
    #[case::negative_maximum("2", "200", "-1", 2, 0)]
    #[case::huge("99999999999999999999", "99999999999999999999", "7000", u32::MAX, 7000)]
    #[case::no_numbers("x", "1e3", "+5", 3, 200)]
    fn fix_113_retry_settings_of_0_huge_or_negative_stay_sane(
        #[case] attempts: &str,
        #[case] base: &str,
        #[case] max: &str,
        #[case] tries: u32,
        #[case] first_delay_ms: u128,
    ) {
        let retry = retry(attempts, base, max);
        assert_eq!((retry.attempts, retry.delay(1).as_millis()), (tries, first_delay_ms));
        assert!(retry.delay(u32::MAX) <= retry.max);
    }
}
