//! `explain`: why a run is where it is, on one page.

mod advice;
mod facts;
mod page;
mod view;

use std::io::stdout;

use jiff::Timestamp;

use crate::{
    args::{Connection, ExplainArgs},
    out::{self, Stream},
    session::Session,
    text::Palette,
};

pub(crate) async fn run(at: &Connection, args: ExplainArgs) -> anyhow::Result<u8> {
    let session = Session::open(at).await?;
    let facts = facts::gather(&session, &args.agent).await?;
    let now = Timestamp::now();
    let explanation = view::view(&facts, now);
    match args.output {
        Some(format) => out::object(format, &explanation)?,
        None => Stream::Stdout.write(&page::text(&explanation, Palette::of(&stdout()), now))?,
    }
    Ok(0)
}
