//! Commands on several objects: pipelines are split and their replies are in the order of the request; what concerns all keys runs on all
//! objects. Touches the objects.

use data_encoding::BASE64;
use http::StatusCode;
use keystead_commands::Command;
use keystead_commands::errors::{self, Fail};
use keystead_commands::wire::json::Strings;
use keystead_http_api::upstash::{Form, body, command_of};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use worker::Response;

use super::call::{Objects, Unit, error_unit};
use super::destination::{Destination, Merge, destination};

const RESP2: &str =
    "ERR replies of several objects are put together as JSON only: leave Upstash-Response-Format out";
const ONCE: &str = "ERR an Idempotency-Key needs keys of one object: give them the same {tag}, or send the commands one by one";
const ON_ITS_OWN: &str =
    "ERR a command about all objects cannot be part of a transaction: send it on its own";

pub(super) async fn respond(objects: &Objects<'_>, bytes: Vec<u8>) -> worker::Result<Response> {
    let uri = &objects.head.uri;
    let is_one = !matches!(uri.path(), "/pipeline" | "/multi-exec");
    let parsed = match is_one {
        true => command_of(uri.path(), &bytes, uri.query()).map(|command| vec![command]),
        false => body::commands(&bytes),
    };
    let (Ok(commands), Ok(form)) = (parsed, Form::of(&objects.head.headers)) else {
        // It has the words for what is wrong.
        return objects.forward(0, &bytes).await;
    };
    let destinations: Vec<Result<Destination, Fail>> =
        commands.iter().map(|command| destination(command.args(), objects.count)).collect();
    // Errors of single commands come from the object, too.
    let mut owners: Vec<usize> = Vec::new();
    let mut is_split = false;
    for one in &destinations {
        match one {
            Ok(Destination::Object(object)) => owners.push(*object),
            Ok(Destination::Any) => {}
            Ok(_) => is_split = true,
            Err(fail) => is_split |= *fail == errors::CROSS_SLOT || fail.line().contains("several objects"),
        }
    }
    let first = owners.first().copied().unwrap_or(0);
    is_split |= owners.iter().any(|owner| *owner != first);
    if !is_split {
        return objects.forward(first, &bytes).await;
    }
    let bad =
        |words: &str| objects.reply(StatusCode::BAD_REQUEST, error_unit(words).get().as_bytes().to_vec());
    if uri.path() == "/multi-exec" {
        let fail = destinations.iter().find_map(|one| one.as_ref().err());
        let is_about_all =
            destinations.iter().any(|one| matches!(one, Ok(Destination::Every(_) | Destination::Scan)));
        return match fail {
            Some(fail) => bad(&fail.line()),
            None if is_about_all => bad(ON_ITS_OWN),
            None => bad(&errors::CROSS_SLOT.line()),
        };
    }
    let Form::Json(strings) = form else { return bad(RESP2) };
    if objects.head.headers.contains_key("idempotency-key") {
        return bad(ONCE);
    }
    let units = Run { objects, strings }.all(&commands, destinations).await;
    match &units[..] {
        [unit] if is_one => {
            let is_error = unit.get().starts_with("{\"error\"");
            let status = if is_error { StatusCode::BAD_REQUEST } else { StatusCode::OK };
            objects.reply(status, unit.get().as_bytes().to_vec())
        }
        units => objects.reply(StatusCode::OK, serde_json::to_vec(units).unwrap_or_default()),
    }
}

/// A pipeline.
struct Run<'a> {
    objects: &'a Objects<'a>,
    strings: Strings,
}

/// The words of a command, as JSON has them.
fn words(command: &Command) -> Vec<&str> {
    command.args().from(0).map(|word| std::str::from_utf8(word).unwrap_or_default()).collect()
}

impl Run<'_> {
    /// Runs commands. Those between two that concern several objects run at the same time on their objects, in order on each.
    async fn all(&self, commands: &[Command], destinations: Vec<Result<Destination, Fail>>) -> Vec<Unit> {
        let mut units: Vec<Option<Unit>> = Vec::new();
        units.resize_with(commands.len(), || None);
        let mut parts: Vec<(usize, Vec<usize>)> = Vec::new();
        for (n, (command, destination)) in commands.iter().zip(destinations).enumerate() {
            let object = match destination {
                Ok(Destination::Object(object)) => object,
                // Where the commands before it are.
                Ok(Destination::Any) => parts.last().map_or(0, |(object, _)| *object),
                Err(fail) => {
                    units[n] = Some(error_unit(&fail.line()));
                    continue;
                }
                Ok(wide) => {
                    self.flush(commands, &mut parts, &mut units).await;
                    units[n] = Some(self.wide(&words(command), wide).await);
                    continue;
                }
            };
            match parts.iter_mut().find(|(other, _)| *other == object) {
                Some((_, part)) => part.push(n),
                None => parts.push((object, vec![n])),
            }
        }
        self.flush(commands, &mut parts, &mut units).await;
        let missing = || error_unit("ERR an object has sent too few replies");
        units.into_iter().map(|unit| unit.unwrap_or_else(missing)).collect()
    }

    async fn flush(
        &self,
        commands: &[Command],
        parts: &mut Vec<(usize, Vec<usize>)>,
        units: &mut [Option<Unit>],
    ) {
        let taken = std::mem::take(parts);
        let calls: Vec<_> = taken
            .iter()
            .map(|(object, part)| (*object, part.iter().map(|n| words(&commands[*n])).collect()))
            .collect();
        for ((_, part), replies) in taken.iter().zip(self.objects.parts(&calls).await) {
            part.iter().zip(replies).for_each(|(n, unit)| units[*n] = Some(unit));
        }
    }

    /// Runs a command that concerns several objects.
    async fn wide(&self, words: &[&str], destination: Destination) -> Unit {
        let (calls, picks, merge) = match destination {
            Destination::Scan => return self.scan(words).await,
            Destination::Every(merge) => {
                let calls = (0..self.objects.count).map(|object| (object, vec![words.to_vec()])).collect();
                (calls, Vec::new(), merge)
            }
            Destination::Split(parts, merge) => {
                let call = |(object, keys): &(usize, Vec<usize>)| {
                    let own = std::iter::once(words[0]).chain(keys.iter().map(|key| words[*key]));
                    (*object, vec![own.collect()])
                };
                (parts.iter().map(call).collect::<Vec<_>>(), parts, merge)
            }
            Destination::Object(_) | Destination::Any => {
                return error_unit("ERR this command runs on one object");
            }
        };
        let mut results = Vec::new();
        for unit in self.objects.parts(&calls).await.into_iter().flatten() {
            match result(&unit) {
                Some(result) => results.push(result),
                // What the others did is done.
                None => return unit,
            }
        }
        merged(results, &merge, &picks)
            .unwrap_or_else(|| error_unit("ERR the replies of the objects do not fit together"))
    }

    /// A page of one object. The cursor names the object.
    async fn scan(&self, words: &[&str]) -> Unit {
        let Some(cursor) = words.get(1).and_then(|word| word.parse::<u64>().ok()) else {
            return error_unit("ERR invalid cursor");
        };
        let count = self.objects.count as u64;
        let (object, within) = ((cursor % count) as usize, (cursor / count).to_string());
        let mut words = words.to_vec();
        words[1] = &within;
        let units = self.objects.parts(&[(object, vec![words])]).await;
        let Some(unit) = units.into_iter().flatten().next() else { return error_unit("ERR no reply") };
        let Some(Value::Array(mut page)) = result(&unit) else { return unit };
        let Some(Value::String(next)) = page.first_mut() else { return unit };
        let plain = match self.strings {
            Strings::Base64 => {
                BASE64.decode(next.as_bytes()).ok().and_then(|text| String::from_utf8(text).ok())
            }
            Strings::Plain => Some(next.clone()),
        };
        let Some(within) = plain.and_then(|text| text.parse::<u64>().ok()) else { return unit };
        let after = self.objects.next(object, within).to_string();
        *next = match self.strings {
            Strings::Base64 => BASE64.encode(after.as_bytes()),
            Strings::Plain => after,
        };
        result_unit(&Value::Array(page)).unwrap_or(unit)
    }
}

#[derive(Deserialize)]
struct Success {
    result: Value,
}

fn result(unit: &Unit) -> Option<Value> {
    // A result of null is one, so this is not `get("result")`.
    serde_json::from_str::<Success>(unit.get()).ok().map(|success| success.result)
}

fn result_unit(value: &Value) -> Option<Unit> {
    RawValue::from_string(serde_json::json!({ "result": value }).to_string()).ok()
}

fn merged(results: Vec<Value>, merge: &Merge, picks: &[(usize, Vec<usize>)]) -> Option<Unit> {
    let value = match merge {
        Merge::Sum => Value::from(results.iter().map(Value::as_i64).sum::<Option<i64>>()?),
        Merge::First => results.into_iter().next()?,
        Merge::Some => results.into_iter().find(|value| !value.is_null()).unwrap_or(Value::Null),
        Merge::Join => {
            let mut all = Vec::new();
            for one in results {
                let Value::Array(items) = one else { return None };
                all.extend(items);
            }
            Value::Array(all)
        }
        Merge::Least => {
            let rows: Vec<&Vec<Value>> = results.iter().map(Value::as_array).collect::<Option<_>>()?;
            let least = |n: usize| {
                rows.iter().map(|row| row.get(n)?.as_i64()).collect::<Option<Vec<_>>>()?.into_iter().min()
            };
            (0..rows.first()?.len()).map(least).collect::<Option<Vec<i64>>>()?.into()
        }
        Merge::Pick(order) => {
            let mut by_index = std::collections::HashMap::new();
            for (one, (_, keys)) in results.iter().zip(picks) {
                by_index.extend(keys.iter().copied().zip(one.as_array()?));
            }
            order.iter().map(|key| by_index.get(key).copied().cloned()).collect::<Option<Vec<_>>>()?.into()
        }
    };
    result_unit(&value)
}
