//! What is sent: groups of steps on named connections, and their text form. It touches nothing.
//!
//! A line of the text is `a> SET k "two words"`. The letter is the connection, and says how it is used:
//!
//! | Letter  | Use |
//! |---------|-----|
//! | a b c   | pipelined: one reply for each request |
//! | s t     | receives messages too: everything is read until the reply to a PING |
//! | w x y   | requests that wait: sent, and received only by a line without a request |
//! | q       | everything is taken until the server closes the connection, which is new every time |
//! | r       | the one argument is sent as it is, without framing; otherwise as q and s together |
//!
//! A line without a request (`s>`, `w>`) reads what was received. An argument `<id:w>` is the number that the server gives to
//! connection w; `<cursor>` makes the step a whole iteration.

use std::fmt;

/// Arguments of a request, its name first.
pub(crate) type Request = Vec<Vec<u8>>;

/// One request, or a read of what was received.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) conn: char,
    pub(crate) args: Request,
}

/// How a connection is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Pipelined,
    Messages,
    Waiting,
    Closing,
    Raw,
}

impl Step {
    pub(crate) fn new(conn: char, args: Request) -> Step {
        Step { conn, args }
    }

    /// How its connection is used.
    pub(crate) fn usage(&self) -> Use {
        match self.conn {
            's' | 't' => Use::Messages,
            'w' | 'x' | 'y' => Use::Waiting,
            'q' => Use::Closing,
            'r' => Use::Raw,
            _ => Use::Pipelined,
        }
    }

    /// Where the cursor of an iteration stands.
    pub(crate) fn cursor(&self) -> Option<usize> {
        self.args.iter().position(|argument| argument == b"<cursor>")
    }

    /// Its name in capitals.
    pub(crate) fn name(&self) -> String {
        self.args.first().map(|name| String::from_utf8_lossy(name).to_uppercase()).unwrap_or_default()
    }

    /// Whether it can be sent among others, its reply one of many.
    pub(crate) fn is_pipelined(&self) -> bool {
        self.usage() == Use::Pipelined && self.cursor().is_none()
    }
}

/// Steps that belong together: left out together when a script is made smaller.
pub(crate) type Group = Vec<Step>;

/// Which judges must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judges {
    /// Redis 7, or Valkey 9 where they differ.
    Both,
    /// Valkey 9 alone: Redis 7.0 has not got these commands, and so its keys would differ.
    Valkey,
}

/// A script.
#[derive(Clone)]
pub(crate) struct Script {
    pub(crate) judges: Judges,
    /// Whether Keystead keeps the keys on several shards.
    pub(crate) sharded: bool,
    pub(crate) groups: Vec<Group>,
}

impl Script {
    pub(crate) fn steps(&self) -> impl Iterator<Item = &Step> {
        self.groups.iter().flatten()
    }

    /// Reads the text form; a line is a group, as is what stands between lines `{` and `}`.
    pub(crate) fn parse(judges: Judges, text: &str) -> Script {
        let (mut groups, mut open): (Vec<Group>, bool) = (Vec::new(), false);
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            match line {
                "{" => {
                    groups.push(Vec::new());
                    open = true;
                }
                "}" => open = false,
                _ => {
                    let (conn, request) = line.split_once('>').expect("a line is a connection and a request");
                    let conn = conn.chars().next().expect("a connection has a letter");
                    let step = Step::new(conn, words(request));
                    match groups.last_mut() {
                        Some(group) if open => group.push(step),
                        _ => groups.push(vec![step]),
                    }
                }
            }
        }
        Script { judges, sharded: false, groups }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}>", self.conn)?;
        for argument in &self.args {
            let plain = |b: &u8| b.is_ascii_graphic() && !matches!(b, b'"' | b'\\');
            if !argument.is_empty() && argument.iter().all(plain) {
                write!(f, " {}", String::from_utf8_lossy(argument))?;
            } else {
                let quoted: String = argument.iter().map(|b| quoted(*b)).collect();
                write!(f, " \"{quoted}\"")?;
            }
        }
        Ok(())
    }
}

fn quoted(byte: u8) -> String {
    match byte {
        b'"' | b'\\' => format!("\\{}", char::from(byte)),
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for group in &self.groups {
            let braces = group.len() > 1;
            if braces {
                writeln!(f, "  {{")?;
            }
            for step in group {
                writeln!(f, "  {step}")?;
            }
            if braces {
                writeln!(f, "  }}")?;
            }
        }
        Ok(())
    }
}

/// The arguments of a line, as redis-cli reads them.
pub(crate) fn words(line: &str) -> Request {
    let (mut found, mut bytes) = (Vec::new(), line.bytes().peekable());
    while let Some(&first) = bytes.peek() {
        match first {
            b' ' => {
                bytes.next();
            }
            b'"' => {
                bytes.next();
                found.push(in_quotes(&mut bytes));
            }
            _ => found.push(std::iter::from_fn(|| bytes.next_if(|b| *b != b' ')).collect()),
        }
    }
    found
}

fn in_quotes(bytes: &mut impl Iterator<Item = u8>) -> Vec<u8> {
    let mut word = Vec::new();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => break,
            b'\\' => match bytes.next().expect("an escape has a character") {
                b'x' => {
                    let digits: Vec<u8> = bytes.by_ref().take(2).collect();
                    let digits = std::str::from_utf8(&digits).expect("hexadecimal digits");
                    word.push(u8::from_str_radix(digits, 16).expect("hexadecimal digits"));
                }
                b'r' => word.push(b'\r'),
                b'n' => word.push(b'\n'),
                other => word.push(other),
            },
            _ => word.push(byte),
        }
    }
    word
}
