//! Time as plain numbers. The runtime reads the clock once, when an input enters; nothing here can.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Milliseconds since the Unix epoch.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The time passed since `earlier`; none if the clock went backwards.
    pub fn since(self, earlier: Timestamp) -> Span {
        Span(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// This moment plus a span.
    pub fn after(self, span: Span) -> Timestamp {
        Timestamp(self.0.saturating_add(i64::try_from(span.0).unwrap_or(i64::MAX)))
    }
}

/// A length of time in milliseconds; written as `90s`, `30m`, `1h30m`, `250ms` in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(pub u64);

impl Span {
    /// A number of whole seconds; more than can be counted is as long as can be.
    pub const fn seconds(seconds: u64) -> Span {
        Span(seconds.saturating_mul(1000))
    }

    /// Reads `1h30m`, `90s`, `250ms`, `2d`. A bare number is refused: its unit would be a guess.
    pub fn parse(text: &str) -> Result<Span, String> {
        let wrong = || {
            format!(
                "{text:?} is not a duration: expected something like \"90s\", \"30m\" or \"1h30m\""
            )
        };
        let mut rest = text.trim();
        let mut total: u64 = 0;
        if rest.is_empty() {
            return Err(wrong());
        }
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
            let amount: u64 = rest[..digits].parse().map_err(|_| wrong())?;
            rest = &rest[digits..];
            let unit_end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
            let unit = match &rest[..unit_end] {
                "ms" => 1,
                "s" => 1000,
                "m" | "min" => 60_000,
                "h" => 3_600_000,
                "d" => 86_400_000,
                _ => return Err(wrong()),
            };
            total = amount
                .checked_mul(unit)
                .and_then(|part| total.checked_add(part))
                .ok_or_else(|| format!("{text:?} is longer than a duration can be"))?;
            rest = &rest[unit_end..];
        }
        Ok(Span(total))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        if rest == 0 {
            return f.write_str("0s");
        }
        for (size, unit) in
            [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s"), (1, "ms")]
        {
            if rest >= size {
                write!(f, "{}{unit}", rest / size)?;
                rest %= size;
            }
        }
        Ok(())
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Span::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_reads_what_it_writes() {
        for millis in [0, 1, 999, 1000, 61_000, 90_061_001, 86_400_000 * 400] {
            assert_eq!(Span::parse(&Span(millis).to_string()), Ok(Span(millis)));
        }
    }

    #[test]
    fn a_span_without_unit_or_too_long_is_refused() {
        for text in
            ["", "5", "m", "1x", "-3s", "1.5h", "99999999999999999999d", "9999999999999999d"]
        {
            assert!(Span::parse(text).is_err(), "{text}");
        }
    }
}
