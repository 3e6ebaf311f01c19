//! The simulation can fail: each planted mistake is noticed within a few seeds, by a check that is meant to,
//! and the same seeds pass without it.
//!
//! Most mistakes are noticed twice: first with all checks, then by those alone that see what people and the
//! world see. The second shows that a promise is broken, not merely that something looks different inside.

use crate::audit::Check;
use crate::bug::Bug;
use crate::run::{Plan, run};
use crate::{large, say};

/// Seeds within which a mistake must be noticed.
const PATIENCE: u64 = 150;

/// The checks that look inside a process.
const INSIDE: [Check; 3] = [Check::Fold, Check::RecordFirst, Check::Sound];

/// Tries seeds until one shows the mistake; the check must be one of those that are meant to.
fn caught(bug: Bug, by: &[Check], blind: &[Check]) {
    for seed in 1..=PATIENCE {
        let plan = Plan { blind: blind.to_vec(), ..large(seed, Some(bug)) };
        let Some(violation) = run(&plan).violation else { continue };
        let eyes = if blind.is_empty() { "" } else { " from outside" };
        say(&format!("{bug:?}: seed {seed}{eyes}, {:?}: {}", violation.check, violation.what));
        assert!(by.contains(&violation.check), "{bug:?} was noticed{eyes} by {violation:?}");
        let without = run(&Plan { bug: None, ..plan }).violation;
        assert!(without.is_none(), "seed {seed} fails without {bug:?}: {without:?}");
        return;
    }
    panic!("{bug:?} went unnoticed for {PATIENCE} seeds");
}

macro_rules! planted {
    ($($name:ident: $bug:ident by $($check:ident)|+ $(, from outside by $($outside:ident)|+)?;)+) => {
        $(
            #[test]
            fn $name() {
                caught(Bug::$bug, &[$(Check::$check),+], &[]);
                $(caught(Bug::$bug, &[$(Check::$outside),+], &INSIDE);)?
            }
        )+
    };
}

planted! {
    an_acknowledgement_before_the_sync_is_noticed:
        AcknowledgesBeforeSync by RecordFirst | NothingLost | Fold, from outside by NothingLost;
    a_write_behind_the_effect_is_noticed:
        WritesBehind by RecordFirst | NothingLost | Fold, from outside by NothingLost;
    a_half_written_batch_that_counts_is_noticed:
        HalfBatchCounts by Fold | Sound | Fence | NothingLost,
            from outside by Fence | ComesToAnEnd | NothingLost;
    a_torn_frame_that_counts_is_noticed:
        TornFrameCounts by Fold | Sound | Fence, from outside by Fence | ComesToAnEnd | NothingLost;
    a_last_record_that_is_missed_is_noticed:
        LastRecordIsMissed by Fold | Sound,
            from outside by NeverRevived | ComesToAnEnd | NothingLost;
    a_snapshot_with_the_wrong_number_is_noticed:
        SnapshotNumberIsWrong by Fold | Sound | NeverRevived | NothingLost,
            from outside by NeverRevived | NothingDoubled | ComesToAnEnd | NothingLost;
    an_unsafe_call_that_runs_again_is_noticed:
        UnsafeCallsRunAgain by Fold | NothingDoubled, from outside by NothingDoubled;
    a_forgotten_loss_of_the_owner_is_noticed:
        OwnerLossIsForgotten by Fold | ComesToAnEnd, from outside by ComesToAnEnd;
    an_ignored_fence_is_noticed:
        FenceIsIgnored by Fence | Sound, from outside by Fence;
    a_reused_owner_number_is_noticed:
        OwnerNumberIsReused by Fold | Sound | NothingDoubled;
    a_batch_dropped_on_a_full_disk_is_noticed:
        FullDiskDropsTheBatch by NothingLost | RecordFirst | Fold | Sound, from outside by NothingLost;
    a_batch_that_is_sent_again_is_noticed:
        WrittenBatchIsSentAgain by Fold | Sound, from outside by OneSync | NothingDoubled;
    results_matched_by_position_are_noticed:
        ResultsMatchByPosition by TrueResult;
    a_report_that_counts_for_two_is_noticed:
        ReportCountsForTwo by TrueResult;
    effects_that_start_twice_are_noticed:
        EffectsStartTwice by NothingDoubled;
    stopped_work_that_goes_on_is_noticed:
        StoppedWorkGoesOn by StoppedIsStopped;
    reports_that_get_lost_are_noticed:
        ReportsGetLost by ComesToAnEnd;
    a_command_acknowledged_on_arrival_is_noticed:
        CommandIsAcknowledgedOnArrival by NothingLost;
    a_command_handed_on_twice_is_noticed:
        CommandIsHandedOnTwice by NothingDoubled | NothingLost;
    a_cancelled_task_that_comes_back_is_noticed:
        CancelIsForgottenOnLoad by NeverRevived | NothingLost | Fold, from outside by NeverRevived | NothingLost;
}
