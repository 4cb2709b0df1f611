//! Templates of bitmaps.

pub(crate) const TEMPLATES: &[&str] = &[
    "SETBIT {bits} {bit} (0|1|1|2)",
    "SET {bits} {v}",
    "GETBIT {bits} {bit}",
    "BITCOUNT {bits}",
    "BITCOUNT {bits} {idx} {idx} [BYTE|BIT|{bad}]",
    "BITPOS {bits} (0|1|{bad})",
    "BITPOS {bits} (0|1) {idx}",
    "BITPOS {bits} (0|1) {idx} {idx} [BYTE|BIT|{bad}]",
    "BITOP (AND|OR|XOR) {bits} ({bits}|{str})+",
    "BITOP NOT {bits} {bits}",
    "BITOP (NOT|and|{bad}) {bits} {bits}+",
    "BITFIELD {bits} (GET {bittype} {bitoff}|SET {bittype} {bitoff} {int}|INCRBY {bittype} {bitoff} {int})+",
    "BITFIELD {bits} OVERFLOW (WRAP|SAT|FAIL|{bad}) (INCRBY|SET) (u2|i5|u8|i64|u63) {bitoff} {int}",
    "BITFIELD {bits} (OVERFLOW (SAT|FAIL|WRAP)|INCRBY (i8|u4) {bitoff} {num})+",
    "BITFIELD {bits} [GET|SET u8|{bad}]",
    "BITFIELD_RO {bits} (GET {bittype} {bitoff})+",
    "BITFIELD_RO {bits} (GET u8 0|SET u8 0 1)+",
];
