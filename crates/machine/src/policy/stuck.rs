//! When the same failure keeps coming back, trying again is not progress.

use serde::{Deserialize, Serialize};

use crate::task::CriterionResult;

/// How many failed verdicts alike, in a row, end a task as stuck.
pub const SAME_VERDICTS: u32 = 3;

/// Remembers the last failed verdict and how often it came in a row.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Streak {
    signature: u64,
    count: u32,
}

impl Streak {
    /// Notes a failed verdict; the explanation, if it was one too many of the same.
    pub fn on_verdict_failed(&mut self, results: &[CriterionResult]) -> Option<String> {
        let signature = signature(results);
        self.count = if self.count > 0 && self.signature == signature { self.count + 1 } else { 1 };
        self.signature = signature;
        let failed: Vec<&str> = results
            .iter()
            .filter(|result| result.fails())
            .map(|result| result.title.as_str())
            .collect();
        (self.count >= SAME_VERDICTS).then(|| {
            format!(
                "the same acceptance failure came {} times in a row: {}",
                self.count,
                failed.join("; ")
            )
        })
    }
}

/// FNV-1a over what failed and what it printed: stable across runs and platforms, unlike the standard hasher.
fn signature(results: &[CriterionResult]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for result in results {
        let exit = result.exit.unwrap_or(i32::MIN).to_le_bytes();
        let parts: [&[u8]; 4] = [
            result.title.as_bytes(),
            &[u8::from(result.passed)],
            &exit,
            result.evidence.as_bytes(),
        ];
        for byte in parts.into_iter().flatten() {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(evidence: &str) -> Vec<CriterionResult> {
        vec![CriterionResult {
            title: "shell: make".to_owned(),
            passed: false,
            exit: Some(1),
            evidence: evidence.to_owned(),
            millis: 5,
            ..CriterionResult::default()
        }]
    }

    #[test]
    fn three_failures_alike_are_stuck_and_a_different_one_starts_anew() {
        let mut streak = Streak::default();
        assert_eq!(streak.on_verdict_failed(&failed("a")), None);
        assert_eq!(streak.on_verdict_failed(&failed("a")), None);
        assert_eq!(streak.on_verdict_failed(&failed("b")), None);
        assert_eq!(streak.on_verdict_failed(&failed("b")), None);
        assert!(
            streak
                .on_verdict_failed(&failed("b"))
                .unwrap()
                .contains("3 times in a row: shell: make")
        );
    }
}
