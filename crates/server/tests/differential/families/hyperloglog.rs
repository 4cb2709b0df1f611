//! Templates of HyperLogLog.

pub(crate) const TEMPLATES: &[&str] = &[
    "PFADD {hll} {m}*",
    "PFADD {hll} {v}+",
    "PFADD {hll} {num}+",
    "PFADD {hll} {flood}",
    "PFCOUNT {hll}",
    "PFCOUNT {hll}+",
    "PFMERGE {hll} {hll}*",
    "PFMERGE {hll} {hll}+ ; PFCOUNT {hll}",
    "SET {hll} {v}",
    "SET {hll} HYLL",
    "DEL {hll}",
    "GET {hll}",
    "STRLEN {hll}",
];
