//! `HELP` of a container, generated from the rows of its subcommands. It touches nothing.

use crate::args::Args;
use crate::conn::Conn;
use crate::errors::CommandResult;
use crate::reply::Reply;
use crate::spec::Spec;
use crate::table;

/// HELP of the container in the arguments.
pub(crate) fn help(_: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    Ok(Reply::Array(match table::find(args.name()) {
        Some(container) => lines(&container.upper_name(), container.subcommands()),
        None => Vec::new(),
    }))
}

/// Status lines, as in Redis.
pub(crate) fn lines(name: &str, rows: &[Spec]) -> Vec<Reply> {
    let title = format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
    let mut lines = vec![title];
    for row in rows {
        lines.push(format!("{} {}", row.upper_name(), row.syntax).trim_end().to_owned());
        lines.push(format!("    {}", row.summary));
    }
    lines.into_iter().map(|line| Reply::Status(line.into())).collect()
}

#[cfg(test)]
mod tests {
    use crate::spec::Run;
    use crate::table;
    use crate::testing::Desk;

    #[test]
    fn help_names_every_subcommand() {
        let mut desk = Desk::new();
        // CLUSTER HELP is an error where there is no cluster.
        assert!(desk.hub.cluster.set(crate::hub::cluster_tests::member()).is_ok());
        for container in table::all().filter(|spec| matches!(spec.run, Run::Within(_))) {
            if !container.subcommands().iter().any(|row| row.name == "help") {
                continue;
            }
            let help = desk.resp(&format!("{} HELP", container.name));
            for row in container.subcommands() {
                assert!(help.contains(&row.upper_name()), "{}: {help}", row.full_name);
            }
        }
    }
}
