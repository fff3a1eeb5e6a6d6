//! Points in time as people write them, in UTC: the standard library knows no calendar.

use std::time::{SystemTime, UNIX_EPOCH};

const DAY: u64 = 86_400;

/// `2024-02-29`: Howard Hinnant's days-to-civil for years from 1970 on.
pub(crate) fn date(unix_seconds: u64) -> String {
    let days = unix_seconds / DAY + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}

/// `23:59:07`
fn time_of_day(unix_seconds: u64) -> String {
    let second = unix_seconds % DAY;
    format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

/// `2024-02-29 23:59:07 UTC`, for people.
pub(crate) fn utc(at: SystemTime) -> String {
    let (seconds, _) = since_1970(at);
    format!("{} {} UTC", date(seconds), time_of_day(seconds))
}

/// `2024-02-29T23:59:07.004Z`: RFC 3339, for programs.
pub(crate) fn rfc3339(at: SystemTime) -> String {
    let (seconds, millis) = since_1970(at);
    format!("{}T{}.{millis:03}Z", date(seconds), time_of_day(seconds))
}

/// A clock that is set to a time before 1970 shows as its beginning.
fn since_1970(at: SystemTime) -> (u64, u32) {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_secs(), since.subsec_millis())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn stamps_are_those_of_the_calendar() {
        // As date(1) says them: date -u -d @SECONDS.
        let cases = [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_709_251_147, "2024-02-29 23:59:07 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ];
        for (seconds, wanted) in cases {
            assert_eq!(utc(UNIX_EPOCH + Duration::from_secs(seconds)), wanted);
        }
        let at = UNIX_EPOCH + Duration::from_millis(1_709_251_147_004);
        assert_eq!(rfc3339(at), "2024-02-29T23:59:07.004Z");
        assert_eq!(rfc3339(UNIX_EPOCH - Duration::from_secs(1)), "1970-01-01T00:00:00.000Z");
    }
}
