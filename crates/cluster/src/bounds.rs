//! Every bound of this crate. The comment of each constant says what happens beyond it.

/// Hash slots, as in Redis Cluster. A slot beyond is `SlotOutOfRange`.
pub const SLOTS: u16 = 16_384;

/// Most nodes of a cluster. One more is `TooManyNodes`.
pub const NODES_MAX: usize = 1000;

/// Longest id of a node or of a cluster, in bytes. A longer one is `NameInvalid`.
pub const NAME_BYTES_MAX: usize = 64;

/// Longest URL of a node, in bytes. A longer one is `UrlInvalid`.
pub const URL_BYTES_MAX: usize = 512;

/// Largest weight of a node. A larger one is `WeightInvalid`.
pub const WEIGHT_MAX: u16 = 100;

/// Most shards of a node. More are `ShardsInvalid`.
pub const SHARDS_MAX: u16 = 1024;

/// Most migrations under way in one table. One more is `TooManyMigrations`.
pub const MIGRATIONS_MAX: usize = 1024;

/// Most slots of one migration, which are handed over, and so unavailable, together. A longer move is cut into several.
pub const MIGRATION_SLOTS_MAX: usize = 64;

/// Virtual nodes per unit of weight. `docs/adr/0026-slots-ring-and-moves.md` has the table from which it was chosen.
pub const VIRTUAL_NODES: usize = 64;

/// Most virtual nodes per unit of weight. More are reduced to this.
pub const VIRTUAL_NODES_MAX: usize = 4096;

/// Most requests that wait for one migration on a node. The next one is rejected at once, *not applied*.
pub const PARKED_MAX: usize = 10_000;

/// A slot is handed over when at most so many of its keys changed since the target asked before: what is left takes about one round trip.
pub const HAND_OVER_LAG_MAX: u64 = 1000;

/// Migrations that a coordinator has under way at a time. Further moves wait.
pub const CONCURRENT_MIGRATIONS: usize = 8;
