//! Every fault, and exactly the cases that catch it: names after the name of their group, `*` for all of a group.

use keystead_testkit::broken::Fault;

/// A fault and what catches it.
pub(crate) type Row = (Fault, &'static str);

/// Faults of an unbounded store.
pub(crate) const PLAIN: &[Row] = &[
    (
        Fault::LostUpdate,
        "contention: 200_applies_read_back_200 200_checks_at_limit_50_admit_50 \
         a_step_reruns_without_harm interleaved_keys_are_each_exact one_of_many_creates_the_key \
         swaps_form_one_chain one_of_many_resets_returns_true \
         handles: two_handles_count_exactly",
    ),
    (
        Fault::ForgottenTtl,
        "expiry: expires_at_its_exact_moment same_keeps_the_expiry never_removes_the_expiry \
         a_new_ttl_replaces_the_old ttl_0_is_expired_at_once same_on_a_new_key_is_never \
         an_expired_key_starts_fresh reset_of_an_expired_key_returns_false the_longest_ttl_is_never \
         many_keys_each_at_its_moment \
         denied: moves_no_expiry recreates_no_expired_key \
         types: refusal_moves_no_expiry an_expired_key_takes_any_type \
         clock: a_jump_back_keeps_what_is_there a_jump_back_revives_nothing \
         a_jump_back_admits_no_more a_ttl_begun_in_the_past_lasts \
         random: *",
    ),
    (
        Fault::PersistsDenied,
        "basics: persists_and_mutates reset_clears_and_returns_whether a_step_deletes \
         expiry: expires_at_its_exact_moment same_keeps_the_expiry a_new_ttl_replaces_the_old \
         ttl_0_is_expired_at_once the_longest_ttl_is_never many_keys_each_at_its_moment \
         keys: * \
         denied: creates_no_key moves_no_expiry recreates_no_expired_key \
         types: refusal_moves_no_expiry an_expired_key_takes_any_type \
         clock: * \
         random: *",
    ),
    (Fault::IgnoresKeyBound, "bounds: a_longer_key_is_rejected"),
    (Fault::DeniedTrims, "denied: changes_no_state values: doubles_survive_bit_for_bit"),
    (
        Fault::OneMsLate,
        "expiry: expires_at_its_exact_moment same_keeps_the_expiry never_removes_the_expiry \
         a_new_ttl_replaces_the_old ttl_0_is_expired_at_once same_on_a_new_key_is_never \
         an_expired_key_starts_fresh reset_of_an_expired_key_returns_false the_longest_ttl_is_never \
         many_keys_each_at_its_moment \
         denied: moves_no_expiry recreates_no_expired_key \
         types: refusal_moves_no_expiry an_expired_key_takes_any_type \
         clock: a_jump_back_keeps_what_is_there a_jump_back_revives_nothing \
         a_jump_back_admits_no_more a_ttl_begun_in_the_past_lasts \
         random: *",
    ),
    (
        Fault::OneMsEarly,
        "expiry: expires_at_its_exact_moment same_keeps_the_expiry a_new_ttl_replaces_the_old \
         the_longest_ttl_is_never many_keys_each_at_its_moment \
         denied: moves_no_expiry \
         types: refusal_moves_no_expiry \
         clock: a_jump_back_keeps_what_is_there a_jump_back_admits_no_more \
         a_ttl_begun_in_the_past_lasts \
         random: *",
    ),
    (
        Fault::SameForgets,
        "expiry: same_keeps_the_expiry \
         clock: a_jump_back_keeps_what_is_there a_jump_back_admits_no_more \
         random: *",
    ),
    (
        Fault::NeverKeeps,
        "expiry: never_removes_the_expiry \
         random: *",
    ),
    (
        Fault::InheritsExpiry,
        "expiry: same_on_a_new_key_is_never \
         random: *",
    ),
    (
        Fault::HidesExpired,
        "clock: a_jump_back_revives_nothing \
         random: *",
    ),
    (
        Fault::MonotonicTime,
        "clock: a_step_gets_the_injected_time a_ttl_begun_in_the_past_lasts \
         random: *",
    ),
    (
        Fault::SweepsByLatestTime,
        "clock: a_ttl_begun_in_the_past_lasts \
         random: *",
    ),
    (
        Fault::CutsKeysAtNul,
        "keys: every_byte_counts look_alikes_are_distinct prefixes_of_each_other_are_distinct",
    ),
    (Fault::CutsLongKeys, "keys: the_longest_key_is_taken long_keys_differ_in_their_last_byte"),
    (Fault::FoldsCase, "keys: every_byte_counts look_alikes_are_distinct"),
    (Fault::TrimsSeparator, "keys: prefixes_of_each_other_are_distinct"),
    (
        Fault::OneSlot,
        "basics: persists_and_mutates isolates_keys reset_clears_and_returns_whether \
         expiry: a_new_ttl_replaces_the_old same_on_a_new_key_is_never many_keys_each_at_its_moment \
         keys: * \
         denied: moves_no_expiry \
         contention: interleaved_keys_are_each_exact one_of_many_creates_the_key \
         values: doubles_survive_bit_for_bit \
         clock: a_jump_back_revives_nothing a_ttl_begun_in_the_past_lasts \
         handles: what_was_answered_survives_closing \
         random: *",
    ),
    (Fault::RoundsDoubles, "values: doubles_survive_bit_for_bit nested_states_survive"),
    (
        Fault::IntegersAsDoubles,
        "values: integers_survive_at_their_ends \
         random: *",
    ),
    (Fault::DropsNuls, "values: text_of_every_kind_survives"),
    (Fault::DropsNullFields, "values: nested_states_survive"),
    (Fault::NullIsAbsent, "values: null_is_a_state nested_states_survive"),
    (Fault::CutsText, "values: the_largest_state_is_taken"),
    (Fault::LosesOnTooLarge, "values: too_large_a_state_harms_nothing"),
    (
        Fault::OverwritesOtherTypes,
        "types: another_type_is_rejected refusal_moves_no_expiry \
         random: *",
    ),
    (
        Fault::DenialTouchesTtl,
        "types: refusal_moves_no_expiry \
         random: *",
    ),
    (Fault::RemembersExpiredType, "types: refusal_moves_no_expiry an_expired_key_takes_any_type"),
    (
        Fault::IgnoresDelete,
        "basics: a_step_deletes a_recreated_key_starts_fresh \
         types: a_freed_key_takes_any_type \
         random: *",
    ),
    (
        Fault::IgnoresReset,
        "basics: isolates_keys reset_clears_and_returns_whether a_recreated_key_starts_fresh \
         expiry: same_on_a_new_key_is_never \
         contention: one_of_many_resets_returns_true \
         values: integers_survive_at_their_ends nested_states_survive \
         types: a_freed_key_takes_any_type \
         random: *",
    ),
    (
        Fault::ResetAlwaysReturnsTrue,
        "basics: reset_clears_and_returns_whether a_step_deletes \
         expiry: ttl_0_is_expired_at_once reset_of_an_expired_key_returns_false \
         denied: creates_no_key recreates_no_expired_key \
         contention: one_of_many_resets_returns_true \
         clock: a_jump_back_revives_nothing \
         random: *",
    ),
    (Fault::RacyReset, "contention: one_of_many_resets_returns_true"),
    (
        Fault::ResetSeesExpired,
        "expiry: reset_of_an_expired_key_returns_false \
         clock: a_jump_back_revives_nothing \
         random: *",
    ),
    (Fault::IgnoresClose, "closing: a_closed_store_returns_an_error"),
    (Fault::SecondCloseFails, "closing: closing_twice_is_harmless"),
    (
        Fault::ClaimsSync,
        "sync: apply_sync_returns \
         closing: a_closed_store_returns_an_error",
    ),
    (Fault::HidesSync, "sync: apply_sync_is_rejected"),
    (Fault::ForgetsOnClose, "handles: two_handles_share_a_key what_was_answered_survives_closing"),
    (Fault::NotShared, "handles: *"),
    (Fault::BlindToOtherHandles, "handles: two_handles_count_exactly"),
    (Fault::LeaksLock, "contention: a_dropped_apply_blocks_no_other"),
];

/// Faults of a store with a clock that cannot be set.
pub(crate) const SERVERS_CLOCK: &[Row] =
    &[(Fault::ForgottenTtl, "expiry: expires_on_the_servers_clock ttl_0_is_expired_at_once")];

/// Faults of a store with a bound.
pub(crate) const BOUNDED: &[Row] = &[
    (Fault::Unbounded, "bounded: a_flood_stays_within_the_bound agrees_but_for_evictions"),
    (Fault::EvictsTheNewest, "bounded: the_newest_key_is_there agrees_but_for_evictions"),
    (Fault::ForgottenTtl, "bounded: agrees_but_for_evictions"),
];
