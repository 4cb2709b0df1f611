//! Whether the rows are consistent: every data row has its key and is of its type, every key has its data.
//!
//! It reads the database it is given and changes nothing. SQLite's own integrity check is run by the caller.

use keystead_core::Result;

use super::executor::{Row, Sql};

/// One query, which counts inconsistent rows.
struct Question {
    wrong: &'static str,
    sql: &'static str,
}

const QUESTIONS: [Question; 9] = [
    Question {
        wrong: "keys of an unknown type",
        sql: "SELECT count(*) FROM keys
            WHERE type NOT IN ('string', 'json', 'state', 'hash', 'list', 'set', 'zset', 'stream')",
    },
    Question {
        wrong: "keys without a version or a revision, or younger than the archive",
        sql: "SELECT count(*) FROM keys WHERE version < 1 OR revision < 0
            OR revision > (SELECT coalesce(max(value), 0) FROM meta WHERE name IN ('revision', 'newest'))",
    },
    Question {
        // While rows may be newer than the revision, a name may be at its old id and its new one.
        wrong: "names of more than one key",
        sql: "SELECT count(*) - count(DISTINCT name) FROM keys WHERE NOT EXISTS
            (SELECT 1 FROM meta newest JOIN meta revision ON newest.name = 'newest' AND revision.name = 'revision'
                WHERE newest.value > revision.value)",
    },
    Question {
        wrong: "hash fields whose key is not a hash",
        sql: "SELECT count(*) FROM hash_fields LEFT JOIN keys ON id = key_id WHERE type IS NOT 'hash'",
    },
    Question {
        wrong: "list items whose key is not a list",
        sql: "SELECT count(*) FROM list_items LEFT JOIN keys ON id = key_id WHERE type IS NOT 'list'",
    },
    Question {
        wrong: "set members whose key is not a set",
        sql: "SELECT count(*) FROM set_members LEFT JOIN keys ON id = key_id WHERE type IS NOT 'set'",
    },
    Question {
        wrong: "sorted set members whose key is not a sorted set",
        sql: "SELECT count(*) FROM zset_members LEFT JOIN keys ON id = key_id WHERE type IS NOT 'zset'",
    },
    Question {
        wrong: "stream rows whose key is not a stream, or whose group does not exist",
        sql: "SELECT (SELECT count(*) FROM streams LEFT JOIN keys ON id = key_id WHERE type IS NOT 'stream')
            + (SELECT count(*) FROM stream_entries LEFT JOIN keys ON id = key_id WHERE type IS NOT 'stream')
            + (SELECT count(*) FROM stream_groups LEFT JOIN keys ON id = key_id WHERE type IS NOT 'stream')
            + (SELECT count(*) FROM stream_consumers c WHERE NOT EXISTS
                (SELECT 1 FROM stream_groups g WHERE g.key_id = c.key_id AND g.name = c.group_name))
            + (SELECT count(*) FROM stream_pending p WHERE NOT EXISTS
                (SELECT 1 FROM stream_groups g WHERE g.key_id = p.key_id AND g.name = p.group_name))",
    },
    Question {
        wrong: "keys without their data",
        sql: "SELECT count(*) FROM keys WHERE CASE type
            WHEN 'string' THEN value IS NULL
            WHEN 'json' THEN value IS NULL
            WHEN 'state' THEN value IS NULL
            WHEN 'hash' THEN NOT EXISTS (SELECT 1 FROM hash_fields WHERE key_id = id)
            WHEN 'list' THEN NOT EXISTS (SELECT 1 FROM list_items WHERE key_id = id)
            WHEN 'set' THEN NOT EXISTS (SELECT 1 FROM set_members WHERE key_id = id)
            WHEN 'zset' THEN NOT EXISTS (SELECT 1 FROM zset_members WHERE key_id = id)
            WHEN 'stream' THEN NOT EXISTS (SELECT 1 FROM streams WHERE key_id = id)
            ELSE 0 END OR (value IS NOT NULL AND type NOT IN ('string', 'json', 'state'))",
    },
];

/// Checks all rows and returns a message for each problem.
///
/// # Errors
/// The error of the database.
pub fn audit(sql: &mut dyn Sql) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for question in &QUESTIONS {
        sql.query(question.sql, &[], &mut |cells| {
            match Row(cells).int(0)? {
                0 => {}
                count => wrong.push(format!("{count} {}", question.wrong)),
            }
            Ok(())
        })?;
    }
    Ok(wrong)
}

#[cfg(test)]
mod tests {
    use super::super::schema::migrate;
    use super::*;
    use crate::testing::Sqlite;

    #[test]
    fn an_empty_archive_is_right() {
        let mut db = Sqlite::in_memory();
        migrate(&mut db).unwrap();
        assert_eq!(audit(&mut db).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn each_kind_of_damage_is_named() {
        let mut db = Sqlite::in_memory();
        migrate(&mut db).unwrap();
        db.0.execute_batch(
            "INSERT INTO meta VALUES ('revision', 10);
            INSERT INTO keys VALUES (1, x'61', 'hash', 1, 1, NULL, NULL), (2, x'62', 'sandwich', 1, 1, NULL, NULL),
                (3, x'63', 'string', 1, 11, NULL, x'00'), (4, x'61', 'string', 1, -1, NULL, x'00');
            INSERT INTO set_members VALUES (7, x'00');
            INSERT INTO stream_pending VALUES (9, x'00', 1, 1, x'00', 1, 1);",
        )
        .unwrap();
        let wrong = audit(&mut db).unwrap();
        for part in [
            "1 keys of an unknown",
            "2 keys without a version",
            "1 names",
            "1 set members",
            "1 stream rows",
            "1 keys without their",
        ] {
            assert!(wrong.iter().any(|line| line.starts_with(part)), "{part}: {wrong:?}");
        }
        assert_eq!(wrong.len(), 6, "{wrong:?}");
    }
}
