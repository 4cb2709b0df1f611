//! Talking to a server: values as they stand on the wire, and connections.

mod conn;
mod value;

pub(crate) use conn::{Address, Conn};
pub(crate) use value::Value;
