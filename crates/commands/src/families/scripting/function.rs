//! `FUNCTION LOAD [REPLACE] function-code`, `FUNCTION DELETE library-name`, `FUNCTION FLUSH [ASYNC | SYNC]`
//! `FUNCTION LIST [LIBRARYNAME library-name-pattern] [WITHCODE]`, `FUNCTION STATS`, `FUNCTION DUMP`
//! `FUNCTION RESTORE serialized-value [FLUSH | APPEND | REPLACE]`, `FUNCTION KILL`
//!
//! A change is acknowledged once the server has stored it; if it cannot be stored, nothing changes.

use std::sync::{Arc, PoisonError};

use keystead_core::Millis;

use super::compiled;
use super::dump;
use super::flags;
use super::libraries::{FunctionRow, Libraries, Library};
use super::script::{NOT_BUSY, is_flush};
use crate::args::Args;
use crate::conn::Conn;
use crate::errors::{CommandResult, Fail};
use crate::glob;
use crate::hub::Hub;
use crate::reply::Reply;

/// Changes the libraries: builds new ones from the current ones, stores them, then replaces the current ones.
fn change<T>(hub: &Hub, make: impl FnOnce(&mut Libraries) -> Result<T, Fail>) -> Result<T, Fail> {
    let _changing = hub.scripts.changing.lock().unwrap_or_else(PoisonError::into_inner);
    let mut libraries = (*hub.scripts.libraries()).clone();
    let made = make(&mut libraries)?;
    hub.host.keep_functions(&payload(&libraries)).map_err(Fail::Broken)?;
    hub.scripts.set_libraries(libraries);
    Ok(made)
}

fn payload(libraries: &Libraries) -> Vec<u8> {
    dump::write(libraries.all().map(|library| library.code.as_slice()))
}

/// Restores what was stored before the server started.
///
/// # Errors
/// When it is not a dump, or a library in it cannot be loaded.
pub(crate) fn restore_stored(hub: &Hub, stored: &[u8]) -> Result<(), Fail> {
    let codes = dump::read(stored).ok_or(WRONG_DUMP)?.map_err(Fail::fixed)?;
    let mut libraries = Libraries::default();
    for code in codes {
        libraries.add(Arc::new(create(hub, code)?))?;
    }
    hub.scripts.set_libraries(libraries);
    Ok(())
}

const WRONG_DUMP: Fail = Fail::fixed("ERR DUMP payload version or checksum are wrong");

/// A library with this text.
fn create(hub: &Hub, code: Vec<u8>) -> Result<Library, Fail> {
    let name = flags::of_library(&code)?.0.to_vec();
    let functions = compiled::rows(hub, &code)?;
    if functions.is_empty() {
        return Err(Fail::fixed("ERR No functions registered"));
    }
    Ok(Library { name, code, functions })
}

pub(super) fn load(hub: &Hub, _: Millis, args: Args<'_>) -> CommandResult {
    let last = args.len() - 1;
    let mut replace = false;
    for option in args.from(2).take(last - 2) {
        if !option.eq_ignore_ascii_case(b"REPLACE") {
            let option = String::from_utf8_lossy(option);
            return Err(Fail::text(format!("ERR Unknown option given: {option}")));
        }
        replace = true;
    }
    let code = args.at(last);
    let name = flags::of_library(code)?.0;
    change(hub, |libraries| {
        if libraries.get(name).is_some() && !replace {
            let name = String::from_utf8_lossy(name);
            return Err(Fail::text(format!("ERR Library '{name}' already exists")));
        }
        libraries.remove(name);
        libraries.add(Arc::new(create(hub, code.to_vec())?))
    })?;
    Ok(Reply::bulk(name))
}

pub(super) fn delete(hub: &Hub, _: Millis, args: Args<'_>) -> CommandResult {
    change(hub, |libraries| {
        if libraries.remove(args.at(2)) { Ok(Reply::Ok) } else { Err(Fail::fixed("ERR Library not found")) }
    })
}

pub(super) fn flush(hub: &Hub, _: Millis, args: Args<'_>) -> CommandResult {
    if args.len() > 3 {
        return Err(crate::errors::subcommand_or_arity(args));
    }
    if !is_flush(args) {
        return Err(Fail::fixed("ERR FUNCTION FLUSH only supports SYNC|ASYNC option"));
    }
    change(hub, |libraries| {
        *libraries = Libraries::default();
        Ok(Reply::Ok)
    })
}

pub(super) fn restore(hub: &Hub, _: Millis, args: Args<'_>) -> CommandResult {
    if args.len() > 4 {
        return Err(crate::errors::subcommand_or_arity(args));
    }
    let policy = args.get(3).unwrap_or(b"APPEND");
    let is = |word: &str| policy.eq_ignore_ascii_case(word.as_bytes());
    if !is("APPEND") && !is("REPLACE") && !is("FLUSH") {
        return Err(Fail::fixed(
            "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
        ));
    }
    let codes = dump::read(args.at(2)).ok_or(WRONG_DUMP)?.map_err(Fail::fixed)?;
    change(hub, |libraries| {
        let mut new = Libraries::default();
        for code in codes {
            let library = create(hub, code)?;
            if new.get(&library.name).is_some() {
                let name = String::from_utf8_lossy(&library.name);
                return Err(Fail::text(format!("ERR Library '{name}' already exists")));
            }
            new.add(Arc::new(library))?;
        }
        if is("FLUSH") {
            *libraries = Libraries::default();
        }
        for library in new.all() {
            if libraries.get(&library.name).is_some() && !is("REPLACE") {
                let name = String::from_utf8_lossy(&library.name);
                return Err(Fail::text(format!("ERR Library {name} already exists")));
            }
            libraries.remove(&library.name);
        }
        new.all().try_for_each(|library| libraries.add(Arc::clone(library)))
    })?;
    Ok(Reply::Ok)
}

pub(super) fn dump(hub: &Hub, _: Millis, _: Args<'_>) -> CommandResult {
    Ok(Reply::bulk(&payload(&hub.scripts.libraries())))
}

pub(super) fn kill(conn: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    if conn.hub.scripts.functions.kill() { Ok(Reply::Ok) } else { Err(NOT_BUSY) }
}

fn named(name: &'static str) -> Reply {
    Reply::bulk(name.as_bytes())
}

/// The running function is not shown: the reply would have to come from the thread that it blocks.
pub(super) fn stats(hub: &Hub, _: Millis, _: Args<'_>) -> CommandResult {
    let (libraries, functions) = hub.scripts.libraries().counts();
    let counts = Reply::Map(vec![
        (named("libraries_count"), Reply::count(libraries)),
        (named("functions_count"), Reply::count(functions)),
    ]);
    Ok(Reply::Map(vec![
        (named("running_script"), Reply::Nil),
        (named("engines"), Reply::Map(vec![(named("LUA"), counts)])),
    ]))
}

pub(super) fn list(hub: &Hub, _: Millis, args: Args<'_>) -> CommandResult {
    let (mut pattern, mut with_code) = (None, false);
    let mut cursor = args.cursor(2);
    while let Some(argument) = cursor.next() {
        if !with_code && argument.eq_ignore_ascii_case(b"WITHCODE") {
            with_code = true;
        } else if pattern.is_none() && argument.eq_ignore_ascii_case(b"LIBRARYNAME") {
            let missing = Fail::fixed("ERR library name argument was not given");
            pattern = Some(cursor.next().ok_or(missing)?);
        } else {
            let argument = String::from_utf8_lossy(argument);
            return Err(Fail::text(format!("ERR Unknown argument {argument}")));
        }
    }
    let libraries = hub.scripts.libraries();
    // Patterns ignore case.
    let pattern = pattern.map(<[u8]>::to_ascii_lowercase);
    let fits = |library: &Library| {
        pattern.as_ref().is_none_or(|pattern| glob::matches(pattern, &library.name.to_ascii_lowercase()))
    };
    let shown = libraries.all().filter(|library| fits(library)).map(|library| show(library, with_code));
    Ok(Reply::Array(shown.collect()))
}

fn show(library: &Library, with_code: bool) -> Reply {
    let functions = library.functions.iter().map(show_function).collect();
    let mut fields = vec![
        (named("library_name"), Reply::bulk(&library.name)),
        (named("engine"), named("LUA")),
        (named("functions"), Reply::Array(functions)),
    ];
    if with_code {
        fields.push((named("library_code"), Reply::bulk(&library.code)));
    }
    Reply::Map(fields)
}

fn show_function(row: &FunctionRow) -> Reply {
    let flags = row.flags.names().map(Reply::status).collect();
    Reply::Map(vec![
        (named("name"), Reply::bulk(&row.name)),
        (named("description"), Reply::maybe(row.description.as_deref())),
        (named("flags"), Reply::Set(flags)),
    ])
}
