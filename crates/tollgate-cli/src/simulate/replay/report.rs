//! The result of a replay as text.

use std::io::{self, Write};

use super::Replay;
use super::key_denials::KeyDenials;
use super::rule_set_run::RuleSetRun;
use crate::log::date;
use crate::simulate::panel::TimeOrigin;
use crate::simulate::terminal;
use crate::style::{Style, Tone};
use crate::table::{Align, Cell, Table};
use crate::text;

/// Writes the result of a replay.
pub(super) fn write(out: &mut impl Write, style: Style, replay: &Replay<'_>) -> io::Result<()> {
    head(out, style, replay)?;
    if replay.facts.requests == 0 {
        return Ok(());
    }
    writeln!(out)?;
    let panels: Vec<_> = replay.rule_sets().map(RuleSetRun::panel).collect();
    terminal::charts(out, style, &panels, TimeOrigin::Date)?;
    side(out, style, &replay.candidate, replay.args.top)?;
    if let Some(current) = &replay.current {
        change(out, style, replay, current)?;
    }
    if replay.rule_sets().any(|run| run.concurrency) {
        let note = "Concurrency limits are simulated as if each request took no time: a log does not \
                    contain\nhow many requests were in flight.";
        writeln!(out, "\n{}", style.dim(note))?;
    }
    Ok(())
}

fn head(out: &mut impl Write, style: Style, replay: &Replay<'_>) -> io::Result<()> {
    let facts = &replay.facts;
    write!(out, "{}: {}", style.bold(&facts.name), text::count(facts.requests, "request"))?;
    match facts.first_us {
        Some(first_us) => {
            let (from, to) = (date(first_us), date(facts.last_us));
            writeln!(out, " from {from} to {to} UTC")?;
        }
        None => writeln!(out)?,
    }
    if facts.not_understood > 0 {
        let lines = text::count(facts.not_understood, "line");
        writeln!(out, "{}", style.denied(format!("{lines} could not be read:")))?;
        for line in &facts.shown {
            writeln!(out, "  line {}: {}", line.line, line.reason)?;
            writeln!(out, "    {}", style.dim(&line.text))?;
        }
        if facts.not_understood > facts.shown.len() as u64 {
            writeln!(out, "  …")?;
        }
    }
    if facts.late > 0 {
        let lines = text::count(facts.late, "line");
        let note = format!("{lines} were too far out of order, and counted at a later time.");
        writeln!(out, "{}", style.denied(note))?;
    }
    Ok(())
}

fn side(out: &mut impl Write, style: Style, side: &RuleSetRun, top: usize) -> io::Result<()> {
    let tally = &side.tally;
    let requests = tally.total.allowed + tally.total.denied;
    let allowed = format!("{} allowed", tally.total.allowed);
    let share = text::percent(tally.total.denied, requests);
    let denied = format!("{} denied ({share})", tally.total.denied);
    write!(
        out,
        "{}: {}, {}",
        style.bold(&side.name),
        style.allowed(allowed),
        style.denied(denied)
    )?;
    if tally.shadow > 0 {
        write!(out, ", {} more if shadow rules were enforced", tally.shadow)?;
    }
    match tally.unmatched {
        0 => writeln!(out)?,
        unmatched => writeln!(out, "; no rule matches {unmatched}")?,
    }
    if !tally.rules.is_empty() {
        writeln!(out)?;
        let right = Align::Right;
        let mut table = Table::new([
            ("rule", Align::Left),
            ("requests", right),
            ("denied", right),
            ("in shadow", right),
        ]);
        for (rule, counts) in &tally.rules {
            table.push([
                text::key(rule).into(),
                counts.matched.into(),
                number(counts.denied),
                number(counts.shadow),
            ]);
        }
        table.write(out, style, 0)?;
    }
    keys(out, style, "Most denied", &tally.denied, top)?;
    keys(out, style, "Most denied in shadow", &tally.shadowed, top)
}

fn number(count: u64) -> Cell {
    Cell::new(if count > 0 { Tone::Denied } else { Tone::Dim }, count.to_string())
}

fn keys(
    out: &mut impl Write,
    style: Style,
    title: &str,
    keys: &KeyDenials,
    top: usize,
) -> io::Result<()> {
    if keys.len() == 0 || top == 0 {
        return Ok(());
    }
    writeln!(out, "\n{}", style.bold(title))?;
    let mut table = Table::new([
        ("rule", Align::Left),
        ("key", Align::Left),
        ("denied", Align::Right),
        ("first", Align::Left),
        ("last", Align::Left),
    ]);
    let mut has_missing = false;
    for (rule_key, times) in keys.top(top) {
        has_missing |= text::lacks_attribute(&rule_key.key);
        table.push([
            text::key(&rule_key.rule).into(),
            text::rule_key(&rule_key.key).into(),
            number(times.count),
            date(times.first_us).into(),
            date(times.last_us).into(),
        ]);
    }
    table.write(out, style, 2)?;
    if has_missing {
        let note =
            "(missing): the log lacks an attribute the rule counts by; name its field with --map.";
        writeln!(out, "  {}", style.dim(note))?;
    }
    if keys.len() > top {
        let more = text::count((keys.len() - top) as u64, "more key");
        writeln!(out, "  {}", style.dim(format!("and {more} (--top shows them)")))?;
    }
    if keys.is_partial() {
        let note = "There were too many keys to count: those with the fewest denials are missing.";
        writeln!(out, "  {}", style.dim(note))?;
    }
    Ok(())
}

fn change(
    out: &mut impl Write,
    style: Style,
    replay: &Replay<'_>,
    current: &RuleSetRun,
) -> io::Result<()> {
    let (change, top) = (&replay.change, replay.args.top);
    let newly = format!("{} newly denied", change.newly_denied);
    let no_longer = format!("{} no longer", change.no_longer_denied);
    write!(out, "\nAgainst {}, which denied ", style.bold(&current.name))?;
    write!(out, "{}: ", current.tally.total.denied)?;
    writeln!(out, "{}, {}", style.denied(newly), style.allowed(no_longer))?;
    keys(out, style, "Newly denied, by the candidate's rules", &change.newly, top)?;
    keys(out, style, "No longer denied, by the current rules", &change.no_longer, top)
}
