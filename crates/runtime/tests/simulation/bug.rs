//! Mistakes that can be switched on in the simulation's own parts, to prove that it notices them.

/// One planted mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    /// The journal says that a batch is written before it is synced.
    AcknowledgesBeforeSync,
    /// The journal keeps a batch in memory until the next one: effects begin without a record.
    WritesBehind,
    /// After a crash, the lines of a half-written batch count.
    HalfBatchCounts,
    /// After a crash, a torn frame is taken for a whole one.
    TornFrameCounts,
    /// A load misses the last record.
    LastRecordIsMissed,
    /// A snapshot is said to include one record more than it does.
    SnapshotNumberIsWrong,
    /// After a crash, calls that ran are queued again, unsafe ones too.
    UnsafeCallsRunAgain,
    /// After a crash, nobody records that the owner was lost.
    OwnerLossIsForgotten,
    /// Writes of a fenced owner are accepted.
    FenceIsIgnored,
    /// A process takes the number of the one before.
    OwnerNumberIsReused,
    /// On a full disk, a batch is dropped and said to be written.
    FullDiskDropsTheBatch,
    /// A batch that was written is reported as not written.
    WrittenBatchIsSentAgain,
    /// Results of calls that run together are matched by position.
    ResultsMatchByPosition,
    /// The report of one effect is also taken for that of another.
    ReportCountsForTwo,
    /// Each effect is started twice.
    EffectsStartTwice,
    /// Work goes on after it was stopped.
    StoppedWorkGoesOn,
    /// Reports get lost now and then.
    ReportsGetLost,
    /// A command is acknowledged on arrival and lost with the process.
    CommandIsAcknowledgedOnArrival,
    /// A command is handed on twice.
    CommandIsHandedOnTwice,
    /// Recovery begins a task anew from its specification.
    CancelIsForgottenOnLoad,
}
