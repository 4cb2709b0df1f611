//! Locations in a tree: where the matches of a path are, and changes there. It touches the tree that it is given.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// One step from a container to a child.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// To the member of this name.
    Name(String),
    /// To the element at this index.
    Index(usize),
}

/// The steps from the root; none for the root itself.
pub type Location = Vec<Step>;

/// The value at a location, if the tree still has it.
pub fn at_mut<'a>(root: &'a mut Value, location: &[Step]) -> Option<&'a mut Value> {
    location.iter().try_fold(root, |value, step| match (value, step) {
        (Value::Object(members), Step::Name(name)) => members.get_mut(name),
        (Value::Array(items), Step::Index(index)) => items.get_mut(*index),
        _ => None,
    })
}

/// The locations that are not inside another, each once.
#[must_use]
pub fn topmost(locations: Vec<Location>) -> Vec<Location> {
    let mut top: Vec<Location> = Vec::new();
    // In this order a location is followed by all that are inside it.
    for location in locations.into_iter().collect::<BTreeSet<_>>() {
        if !top.last().is_some_and(|last| location.starts_with(last)) {
            top.push(location);
        }
    }
    top
}

/// The order in which locations can be changed so that none moves before its turn: inner before outer, last before first.
#[must_use]
pub fn inside_out(locations: &[Location]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..locations.len()).collect();
    order.sort_by(|a, b| locations[*b].cmp(&locations[*a]));
    order
}

/// Removes the values at the locations from a tree and returns how many there were. The root stays.
pub fn remove_all(root: &mut Value, locations: Vec<Location>) -> usize {
    let locations = topmost(locations);
    // Children of the same parent are removed together: one by one, a long array would take quadratic time.
    let mut groups: BTreeMap<&[Step], Vec<&Step>> = BTreeMap::new();
    for (last, parent) in locations.iter().filter_map(|location| location.split_last()) {
        groups.entry(parent).or_default().push(last);
    }
    let mut removed = 0;
    // Inner parents before outer ones, so that no index has moved when its turn comes.
    for (parent, steps) in groups.into_iter().rev() {
        let last = steps.into_iter();
        removed += match at_mut(root, parent) {
            Some(Value::Object(members)) => {
                let before = members.len();
                let names: BTreeSet<&str> = last
                    .filter_map(|step| if let Step::Name(name) = step { Some(&**name) } else { None })
                    .collect();
                members.retain(|name, _| !names.contains(&**name));
                before - members.len()
            }
            Some(Value::Array(items)) => {
                let (before, mut index) = (items.len(), 0);
                let indices: BTreeSet<usize> = last
                    .filter_map(|step| if let Step::Index(index) = step { Some(*index) } else { None })
                    .collect();
                items.retain(|_| {
                    index += 1;
                    !indices.contains(&(index - 1))
                });
                before - items.len()
            }
            _ => 0,
        };
    }
    removed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::json::document::parse;

    fn location(text: &str) -> Location {
        let steps = text.split('/').filter(|step| !step.is_empty());
        steps.map(|step| step.parse().map_or_else(|_| Step::Name(step.into()), Step::Index)).collect()
    }

    fn shown(locations: &[Location]) -> Vec<String> {
        let step = |step: &Step| match step {
            Step::Name(name) => name.clone(),
            Step::Index(index) => index.to_string(),
        };
        locations.iter().map(|location| location.iter().map(step).collect::<Vec<_>>().join("/")).collect()
    }

    #[test]
    fn nested_locations_are_left_out() {
        let locations = ["a/b", "b", "a", "a/b/c", "ab", "b", "c/1", "c/10"].map(location).to_vec();
        assert_eq!(shown(&topmost(locations)), ["a", "ab", "b", "c/1", "c/10"]);
        assert_eq!(shown(&topmost(vec![location("a"), location("")])), [""]);
    }

    #[test]
    fn inner_locations_come_before_outer_ones() {
        let locations = ["a", "a/0", "a/10", "a/2/b", "a/2"].map(location);
        let ordered: Vec<Location> =
            inside_out(&locations).into_iter().map(|at| locations[at].clone()).collect();
        assert_eq!(shown(&ordered), ["a/10", "a/2/b", "a/2", "a/0", "a"]);
    }

    #[test]
    fn removing_values_does_not_move_the_others() {
        let mut root = parse(br#"{"a":[0,1,2,3,{"x":1,"y":2}],"b":{"c":1,"d":2,"e":3}}"#).unwrap();
        let locations =
            ["a/0", "a/2", "a/4/x", "b/c", "b/e", "b/zz", "q/1", "a/9", "a/2"].map(location).to_vec();
        assert_eq!(remove_all(&mut root, locations), 5);
        assert_eq!(root.to_string(), r#"{"a":[1,3,{"y":2}],"b":{"d":2}}"#);
        assert_eq!(remove_all(&mut root, vec![location(""), location("a")]), 0, "the root stays");
    }
}
