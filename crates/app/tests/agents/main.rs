//! Real coding agents, driven by the real `drivetrain`, against a scripted model on this machine.
//!
//! The tests are ignored because they need the programs; `scripts/agents` installs them, pinned, and runs these tests
//! once for each version, in a network namespace that has nothing but loopback. Each scenario is written once, in words
//! that every program has; what one cannot do is said where it is asked for.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../it/editor.rs"]
mod editor;
mod editor_scenarios;
#[path = "../it/environment.rs"]
#[allow(dead_code, reason = "the same place serves another suite, which uses the rest")]
mod environment;
#[path = "../support/leaks.rs"]
mod leaks;
mod program;
mod scenarios;
mod stage;

/// Every scenario for one program: of a task that is run, and of an editor's session.
macro_rules! scenarios {
    ($module:ident, $program:expr, $needs:literal, [$($name:ident),* $(,)?], [$($editor:ident),* $(,)?]) => {
        mod $module {
            $(
                #[test]
                #[ignore = $needs]
                fn $name() {
                    crate::scenarios::$name(&$program);
                }
            )*
            $(
                #[test]
                #[ignore = $needs]
                fn $editor() {
                    crate::editor_scenarios::$editor(&$program);
                }
            )*
        }
    };
}

scenarios!(
    claude,
    crate::program::CLAUDE,
    "needs Claude Code: scripts/agents",
    [
        an_edit_is_made_and_verified,
        what_the_policy_denies_is_not_done_and_the_agent_hears_why,
        what_is_asked_is_done_once_another_process_approves,
        what_a_verdict_says_is_the_next_prompt_and_the_fix_is_verified,
        an_interrupt_stops_a_tool_and_its_note_is_the_operators,
        a_word_in_the_middle_of_a_turn_reaches_the_model,
        a_model_that_has_no_time_is_asked_again,
        a_conversation_that_is_too_long_begins_afresh,
        a_conversation_is_made_shorter_between_two_turns,
        another_model_is_asked_in_the_same_conversation,
        a_key_that_is_wrong_ends_it,
        killed_in_the_middle_it_is_resumed_and_told_to_look_again,
        drivetrain_killed_in_the_middle_leaves_nothing_and_goes_on_once,
        what_runs_in_its_background_ends_with_its_claim,
        a_budget_that_is_spent_in_the_middle_of_a_turn_ends_it,
        its_key_is_kept_from_it_and_what_it_asks_is_counted_to_the_token,
        done_without_a_deed_is_not_verified,
        cancelled_in_the_middle_of_a_tool_nothing_is_left,
        a_step_of_a_workflow_is_its_work_between_a_tool_and_a_check,
        what_was_recorded_replays_to_the_same_end_without_a_model_and_a_key,
        tools_of_ours_are_called_over_its_own_pipe,
        what_the_policy_denies_of_our_tools_is_answered_with_the_reason,
        an_interrupt_stops_a_tool_of_ours,
        drivetrain_killed_in_a_call_of_ours_goes_on_and_makes_it_once,
    ],
    [
        an_editor_sees_words_calls_and_the_plan,
        what_it_asks_is_asked_in_the_editor_and_the_answer_counts,
        a_cancel_in_the_editor_stops_it_and_the_next_prompt_goes_on,
        a_word_from_a_terminal_reaches_an_agent_of_an_editor,
        a_session_is_loaded_after_a_kill_and_goes_on,
    ]
);

scenarios!(
    codex,
    crate::program::CODEX,
    "needs Codex: scripts/agents",
    [
        an_edit_is_made_and_verified,
        what_the_policy_denies_is_not_done_and_the_agent_hears_why,
        what_is_asked_is_done_once_another_process_approves,
        what_a_verdict_says_is_the_next_prompt_and_the_fix_is_verified,
        an_interrupt_stops_a_tool_and_its_note_is_the_operators,
        a_word_in_the_middle_of_a_turn_reaches_the_model,
        a_model_that_has_no_time_is_asked_again,
        a_conversation_that_is_too_long_begins_afresh,
        a_conversation_is_made_shorter_between_two_turns,
        another_model_is_asked_in_the_same_conversation,
        a_key_that_is_wrong_ends_it,
        killed_in_the_middle_it_is_resumed_and_told_to_look_again,
        drivetrain_killed_in_the_middle_leaves_nothing_and_goes_on_once,
        what_runs_in_its_background_ends_with_its_claim,
        a_budget_that_is_spent_in_the_middle_of_a_turn_ends_it,
        its_key_is_kept_from_it_and_what_it_asks_is_counted_to_the_token,
        done_without_a_deed_is_not_verified,
        cancelled_in_the_middle_of_a_tool_nothing_is_left,
        a_step_of_a_workflow_is_its_work_between_a_tool_and_a_check,
        what_was_recorded_replays_to_the_same_end_without_a_model_and_a_key,
    ],
    [an_editor_sees_words_calls_and_the_plan]
);

scenarios!(
    acp,
    crate::program::ACP,
    "needs an agent of the protocol: scripts/agents",
    [
        an_edit_is_made_and_verified,
        what_the_policy_denies_is_not_done_and_the_agent_hears_why,
        what_is_asked_is_done_once_another_process_approves,
        what_a_verdict_says_is_the_next_prompt_and_the_fix_is_verified,
        an_interrupt_stops_a_tool_and_its_note_is_the_operators,
        a_word_in_the_middle_of_a_turn_reaches_the_model,
        a_conversation_that_is_too_long_never_counts_as_done,
        a_key_that_is_wrong_ends_it,
        killed_in_the_middle_it_is_resumed_and_told_to_look_again,
        drivetrain_killed_in_the_middle_leaves_nothing_and_goes_on_once,
        // Not what runs in its background: the adapter ends a prompt only once that has ended, and is silent meanwhile.
        a_budget_that_is_spent_in_the_middle_of_a_turn_ends_it,
        its_key_is_kept_from_it_and_what_it_asks_is_counted_to_the_token,
        done_without_a_deed_is_not_verified,
        cancelled_in_the_middle_of_a_tool_nothing_is_left,
        a_step_of_a_workflow_is_its_work_between_a_tool_and_a_check,
        what_was_recorded_replays_to_the_same_end_without_a_model_and_a_key,
    ],
    [an_editor_sees_words_calls_and_the_plan]
);

scenarios!(
    gemini,
    crate::program::GEMINI,
    "needs Gemini CLI: scripts/agents",
    [
        an_edit_is_made_and_verified,
        what_the_policy_denies_is_not_done_and_the_agent_hears_why,
        what_is_asked_is_done_once_another_process_approves,
        what_a_verdict_says_is_the_next_prompt_and_the_fix_is_verified,
        an_interrupt_stops_a_tool_and_its_note_is_the_operators,
        a_word_in_the_middle_of_a_turn_reaches_the_model,
        a_key_that_is_wrong_ends_it,
        killed_in_the_middle_it_is_resumed_and_told_to_look_again,
        drivetrain_killed_in_the_middle_leaves_nothing_and_goes_on_once,
        a_budget_that_is_spent_in_the_middle_of_a_turn_ends_it,
        its_key_is_kept_from_it_and_what_it_asks_is_counted_to_the_token,
        done_without_a_deed_is_not_verified,
        cancelled_in_the_middle_of_a_tool_nothing_is_left,
        what_it_has_us_write_is_judged_and_verified,
        what_it_may_not_have_us_write_is_not_written_and_it_goes_on,
    ],
    [an_editor_sees_words_calls_and_the_plan]
);

scenarios!(
    opencode,
    crate::program::OPENCODE,
    "needs OpenCode: scripts/agents",
    [
        an_edit_is_made_and_verified,
        what_the_policy_denies_is_not_done_and_the_agent_hears_why,
        what_is_asked_is_done_once_another_process_approves,
        what_a_verdict_says_is_the_next_prompt_and_the_fix_is_verified,
        an_interrupt_stops_a_tool_and_its_note_is_the_operators,
        a_word_in_the_middle_of_a_turn_reaches_the_model,
        a_key_that_is_wrong_ends_it,
        killed_in_the_middle_it_is_resumed_and_told_to_look_again,
        drivetrain_killed_in_the_middle_leaves_nothing_and_goes_on_once,
        a_budget_that_is_spent_in_the_middle_of_a_turn_ends_it,
        its_key_is_kept_from_it_and_what_it_asks_is_counted_to_the_token,
        done_without_a_deed_is_not_verified,
        cancelled_in_the_middle_of_a_tool_nothing_is_left,
    ],
    [an_editor_sees_words_calls_and_the_plan]
);
