//! Keystead inside a Cloudflare Durable Object: the commands, documents and limits of the server, on the object's own SQLite.
//!
//! ```text
//! request -> entry.js -> Worker: token, route -> Durable Object: one transaction -> rows -> response, when the rows are durable
//! ```
//!
//! | To find                                       | open          |
//! |-----------------------------------------------|---------------|
//! | the module again after a panic                | `entry.js`    |
//! | what the Worker does before an object is woken | `gate`       |
//! | the Durable Object, and its alarm             | `object`      |
//! | a database of several objects                 | `spread`      |
//! | one transaction: keyspace and rows as one     | `database`    |
//! | SQL statements of the model on the object     | `sql`         |
//! | the storage as JavaScript has it              | `storage`     |
//! | the Upstash-compatible REST API               | `upstash`     |
//! | messages as events                            | `events`      |
//! | versioned documents                           | `kv`          |
//! | rate limits                                   | `limit`       |
//! | write-behind to D1                            | `buffer`      |
//! | statements of compute services                | `statements`  |
//! | D1, Workers KV and objects as stores          | `store`       |
//! | faults that tests switch on                   | `faults`      |
//! | requests and responses of the platform        | `exchange`    |
//! | tokens and policies, from secrets and variables | `settings`  |
//!
//! It touches the Durable Object's storage, and D1 and Workers KV where they are bound. Invariant: whatever a request changes is one transaction, and its response leaves the object only
//! when that is durable, which the platform's output gate ensures.

mod bounds;
mod buffer;
mod database;
mod events;
mod exchange;
mod faults;
mod gate;
mod kv;
mod limit;
mod object;
mod settings;
mod spread;
mod sql;
mod statements;
mod storage;
mod store;
mod upstash;
