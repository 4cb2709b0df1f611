//! The storage of a Durable Object as JavaScript has it: what the `worker` crate does not offer. Touches nothing by itself.

use js_sys::{Array, Iterator, Promise};
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

#[wasm_bindgen]
extern "C" {
    /// `ctx.storage`.
    pub(crate) type ObjectStorage;

    /// Runs a function in a transaction, which is rolled back when it throws.
    #[wasm_bindgen(method, catch, js_name = transactionSync)]
    pub(crate) fn transaction_sync(
        this: &ObjectStorage,
        run: &mut dyn FnMut() -> Result<JsValue, JsValue>,
    ) -> Result<JsValue, JsValue>;

    #[wasm_bindgen(method, getter)]
    pub(crate) fn sql(this: &ObjectStorage) -> SqlStorage;

    /// Sets the one alarm. It is written with the changes of the same turn.
    #[wasm_bindgen(method, js_name = setAlarm)]
    pub(crate) fn set_alarm(this: &ObjectStorage, at_ms: f64) -> Promise;

    /// `ctx.storage.sql`.
    pub(crate) type SqlStorage;

    #[wasm_bindgen(method, catch, variadic)]
    pub(crate) fn exec(this: &SqlStorage, statement: &str, params: &Array) -> Result<Cursor, JsValue>;

    /// The result of a statement.
    pub(crate) type Cursor;

    #[wasm_bindgen(method)]
    pub(crate) fn raw(this: &Cursor) -> Iterator;

    #[wasm_bindgen(method, getter, js_name = columnNames)]
    pub(crate) fn column_names(this: &Cursor) -> Array;

    #[wasm_bindgen(method, getter, js_name = rowsRead)]
    pub(crate) fn rows_read(this: &Cursor) -> f64;

    #[wasm_bindgen(method, getter, js_name = rowsWritten)]
    pub(crate) fn rows_written(this: &Cursor) -> f64;
}
