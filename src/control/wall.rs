//! Moments of the wall clock as text: RFC 3339, in UTC, whole seconds or milliseconds.

use std::time::{SystemTime, UNIX_EPOCH};

const DAY: u64 = 86_400;

/// `2026-11-30T02:31:41.250Z`, for programs.
pub(super) fn rfc3339(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (date, time) = parts(since.as_secs());
    format!("{date}T{time}.{:03}Z", since.subsec_millis())
}

/// `2026-11-30 02:31:41Z`, for people.
pub(super) fn shown(at: SystemTime) -> String {
    let (date, time) = parts(at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs());
    format!("{date} {time}Z")
}

fn parts(seconds: u64) -> (String, String) {
    let (days, rest) = (seconds / DAY, seconds % DAY);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    (format!("{year:04}-{month:02}-{day:02}"), format!("{hour:02}:{minute:02}:{second:02}"))
}

/// Year, month and day of a day counted from 1970-01-01, in the proleptic Gregorian calendar. Years begin in
/// March here, so that the leap day is the last of one, and 400 of them are one era.
const fn civil(days: u64) -> (u64, u64, u64) {
    const ERA: u64 = 146_097;
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / ERA, shifted % ERA);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400;
    (if month <= 2 { year + 1 } else { year }, month, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn dates_are_those_of_date() {
        // As `date -u -d @SECONDS +%FT%T` prints them.
        let cases = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399, "2000-02-28T23:59:59.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (951_868_800, "2000-03-01T00:00:00.000Z"),
            (1_709_164_800, "2024-02-29T00:00:00.000Z"),
            (1_767_225_599, "2025-12-31T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ];
        for (seconds, text) in cases {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
        let at = UNIX_EPOCH + Duration::from_millis(1_796_005_901_250);
        assert_eq!(
            (rfc3339(at), shown(at)),
            ("2026-11-30T02:31:41.250Z".into(), "2026-11-30 02:31:41Z".into())
        );
    }
}
