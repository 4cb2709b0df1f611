//! `TIME`

use crate::args::Args;
use crate::conn::Conn;
use crate::errors::CommandResult;
use crate::reply::Reply;

pub(super) fn time(conn: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    let (seconds, micros) = (conn.now.0 / 1000, conn.now.0 % 1000 * 1000);
    Ok(Reply::bulks([seconds.to_string(), micros.to_string()]))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn time_comes_from_the_context() {
        let mut desk = Desk::new();
        desk.now = desk.now.plus_ms(42);
        desk.expect(&[("TIME", "*2 $10 1700000000 $5 42000")]);
    }
}
