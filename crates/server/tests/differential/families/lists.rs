//! Templates of lists.

pub(crate) const TEMPLATES: &[&str] = &[
    "LPUSH {list} {m}+",
    "RPUSH {list} {m}+",
    "RPUSH {list} {v}+",
    "LPUSHX {list} {m}+",
    "RPUSHX {list} {m}+",
    "LPOP {list} [{count}]",
    "RPOP {list} [{count}]",
    "LLEN {list}",
    "LRANGE {list} {idx} {idx}",
    "LRANGE {list} 0 -1",
    "LINDEX {list} {idx}",
    "LSET {list} {idx} {m}",
    "LINSERT {list} (BEFORE|AFTER|before|{bad}) {m} {v}",
    "LREM {list} {count} {m}",
    "LTRIM {list} {idx} {idx}",
    "LPOS {list} {m} [RANK {idx}] [COUNT {count}] [MAXLEN {count}]",
    "LMOVE {list} {list} (LEFT|RIGHT|left|{bad}) (LEFT|RIGHT)",
    "RPOPLPUSH {list} {list}",
    "LMPOP {nlist} (LEFT|RIGHT) [COUNT {count}]",
    "LMPOP {nlist} [LEFT|RIGHT|{bad}] [COUNT {count}]*",
];
