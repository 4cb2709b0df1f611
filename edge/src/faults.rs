//! Faults that a test has switched on with the variable `FAULTS`. Without it nothing of this runs.
//!
//! | Request, or variable | Fault |
//! |---|---|
//! | `POST /fault/panic` | a panic in a transaction that has written rows |
//! | `POST /fault/reply` | the reply of D1 to the next batch of each sink is lost |
//! | `FAULTS=full` | the object's database may not grow beyond what it is when the object wakes |
//!
//! It touches the object.

use js_sys::{Function, Reflect};
use keystead_model::keyspace::Expire;
use wasm_bindgen::{JsCast, JsValue};

use crate::database::Completion;
use crate::object::Database;

/// Causes the fault of this path.
pub(crate) fn cause(object: &Database, path: &str) {
    let Some(name) = path.strip_prefix("/fault/").filter(|_| object.env.var("FAULTS").is_ok()) else {
        return;
    };
    match name {
        "panic" => panic_in_transaction(object),
        "reply" => object.buffers().unwrap_or_default().iter().for_each(|one| one.loses_reply.set(true)),
        _ => {}
    }
}

fn panic_in_transaction(object: &Database) {
    let _ = object.with_open(|open| {
        open.transact(|open| {
            let put = open.keys.set_str(b"fault", b"x".as_slice().into(), Expire::Keep, open.now);
            let written = open.keys.write_rows();
            panic!("a fault that a test asked for, after {put:?} and {written:?}");
            #[allow(unreachable_code, reason = "the type of the transaction")]
            ((), Completion::Undo)
        })
    });
}

/// The object has opened its database.
pub(crate) fn opened(object: &Database) {
    if object.env.var("FAULTS").is_ok_and(|faults| faults.to_string() == "full")
        && let Err(error) = bound_pages(object.state.storage().as_raw().as_ref())
    {
        panic!("this runtime cannot bound its database: {error:?}");
    }
}

/// Workerd has this for tests, with the compatibility flag `experimental`. SQLite takes no fewer pages than there are.
fn bound_pages(storage: &JsValue) -> Result<(), JsValue> {
    let sql = Reflect::get(storage, &"sql".into())?;
    let bound: Function = Reflect::get(&sql, &"setMaxPageCountForTest".into())?.dyn_into()?;
    bound.call1(&sql, &1.into()).map(|_| ())
}
