//! The code blocks of a Markdown page. Pure, but for reading the page.

use crate::root;

/// What the comment before a block says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    None,
    Server,
    Streams,
    NotRun(String),
}

/// One fenced block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// The line of its fence, from 1.
    pub(crate) line: usize,
    /// The first word after the fence.
    pub(crate) language: String,
    pub(crate) text: String,
    pub(crate) mark: Mark,
    /// The output that the page shows for it.
    pub(crate) output: Option<String>,
    /// Whether it is the output of the block before it.
    pub(crate) is_output: bool,
}

/// The blocks of a page, by its path from the root.
pub(crate) fn read(page: &str) -> Vec<Block> {
    parse(&std::fs::read_to_string(root().join(page)).unwrap_or_else(|e| panic!("{page}: {e}")))
}

fn parse(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    // The last line that is not blank, and whether it ended a block.
    let (mut before, mut after_block) = ("", false);
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(info) = line.strip_prefix("```") else {
            if !line.trim().is_empty() {
                (before, after_block) = (line, false);
            }
            continue;
        };
        let body: Vec<&str> =
            lines.by_ref().map(|(_, line)| line).take_while(|line| !line.starts_with("```")).collect();
        let language = info.split([' ', ',']).next().unwrap_or_default().to_owned();
        let body = body.join("\n");
        let shell = blocks.last_mut().filter(|last| after_block && last.language == "sh");
        let is_output = shell.is_some() && ["text", "json"].contains(&language.as_str());
        if let Some(shell) = shell
            && is_output
        {
            shell.output = Some(body.clone());
        }
        let mark = mark(before, after_block);
        blocks.push(Block { line: number + 1, language, text: body, mark, output: None, is_output });
        after_block = true;
    }
    blocks
}

fn mark(before: &str, after_block: bool) -> Mark {
    let comment = before.trim().strip_prefix("<!--").and_then(|rest| rest.strip_suffix("-->"));
    match comment.map(str::trim) {
        Some("server") if !after_block => Mark::Server,
        Some("streams") if !after_block => Mark::Streams,
        Some(comment) if !after_block => match comment.strip_prefix("not run:") {
            Some(reason) => Mark::NotRun(reason.trim().to_owned()),
            None => Mark::None,
        },
        _ => Mark::None,
    }
}
