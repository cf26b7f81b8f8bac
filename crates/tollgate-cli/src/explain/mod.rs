//! `tollgate explain`: which rules apply to one request, and how they decide.

mod descriptor_words;
mod report;

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::Args;
use clap::builder::BoolishValueParser;
use futures_util::FutureExt;
use tollgate::Time;
use tollgate::testing::ManualClock;
use tollgate_rules::RuleLimiter;

use crate::request_words::{RequestWords, is_request_word};
use crate::style::Style;
use crate::{Outcome, load};
use descriptor_words::DescriptorWords;

const EXPLAIN_HELP: &str = "\
A request is a method, a path, and attributes as name=value:
  ip=203.0.113.7       the client's address
  user=ann plan=pro    attributes that your service sets
  header.x-org=acme    a header, also as rules spell it: 'header[\"x-org\"]=acme';
                       likewise query.NAME and cookie.NAME
  host=shop.example    the requested host
  cost=3               the cost, for rules without one
  domain=shop          the domain of the rules, if there are several
  at=2026-01-31T12:00:00Z  the time, for schedules and overrides [default: now]

In a domain of envoyproxy/ratelimit, name=value is an entry of a descriptor, in this order, and +
begins another descriptor of the same request; cost=… is the hits_addend of its descriptor.

Counters start empty, as in a server that has just started.

Examples:
  tollgate explain POST /login ip=203.0.113.7
  tollgate explain rules/ GET /api/orders user=ann plan=pro --json
  tollgate explain ratelimit.yaml domain=rl foo=ann bar=banned + category=account

Exit codes: 0 allowed, 1 denied, 2 error.";

/// The arguments of `tollgate explain`.
#[derive(Args, Debug)]
#[command(after_long_help = EXPLAIN_HELP)]
#[command(after_help = "How to write a request: tollgate explain --help")]
pub(crate) struct ExplainArgs {
    /// File or directory of rules ("-" is standard input; default: tollgate.yaml), then the request
    /// as METHOD PATH name=value…
    #[arg(value_name = "[FILE|DIR] REQUEST", required = true)]
    words: Vec<String>,

    /// Several files of envoyproxy/ratelimit for one domain are merged
    #[arg(long)]
    envoy_merge_domains: bool,

    /// JSON output, one object
    #[arg(long, env = "TOLLGATE_JSON", value_parser = BoolishValueParser::new())]
    json: bool,
}

/// Separates the rules from the words of the request. A request starts with a method, a path or an
/// attribute, so any other first word names the rules.
fn split_file(words: &[String]) -> anyhow::Result<(PathBuf, &[String])> {
    let is_rules = |word: &str| word == "-" || !is_request_word(word) || Path::new(word).exists();
    match words {
        [first, rest @ ..] if is_rules(first) => {
            if rest.is_empty() {
                bail!("the request is missing: add one, such as POST /login ip=203.0.113.7");
            }
            Ok((first.into(), rest))
        }
        words => {
            let [default] = load::paths_or_default(&[])?.try_into().expect("one default");
            Ok((default, words))
        }
    }
}

pub(crate) fn run(args: &ExplainArgs) -> anyhow::Result<Outcome> {
    let (file, words) = split_file(&args.words)?;
    let rules = load::rules_merged(&file, args.envoy_merge_domains)?;
    let limiter = |at: Option<Time>| match at {
        Some(at) => RuleLimiter::builder().clock(&ManualClock::at(at)).build(rules.clone()),
        None => RuleLimiter::new(rules.clone()),
    };
    let explanation = match DescriptorWords::parse(words, &rules)? {
        Some(words) => words.explain(&limiter(words.at)),
        None => {
            let words = RequestWords::parse(words)?;
            limiter(words.at).explain(&words.request()?).now_or_never()
        }
    };
    let explanation = explanation.expect("the memory store does not wait");
    let mut out = BufWriter::new(io::stdout().lock());
    match args.json {
        true => {
            serde_json::to_writer(&mut out, &explanation)?;
            writeln!(out)?;
        }
        false => {
            let style = Style::when(io::stdout().is_terminal());
            report::write(&mut out, style, &explanation, &rules)?;
        }
    }
    out.flush()?;
    Ok(Outcome::found(!explanation.allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_names_the_rules_unless_it_is_part_of_a_request() {
        let split = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            split_file(&words).map(|(file, rest)| (file, rest.len())).map_err(|e| e.to_string())
        };
        assert_eq!(split(&["shop.yaml", "GET", "/"]), Ok(("shop.yaml".into(), 2)));
        assert_eq!(split(&["-", "ip=::1"]), Ok(("-".into(), 1)));
        assert_eq!(split(&["src", "ip=::1"]), Ok(("src".into(), 1)), "a folder that exists");
        assert!(split(&["shop.yaml"]).unwrap_err().contains("the request is missing"));
        for words in [&["POST", "/login"][..], &["POST /login"], &["/login"], &["ip=::1"]] {
            // The tests run in a folder without the default file.
            assert!(split(words).unwrap_err().contains("there is no tollgate.yaml"), "{words:?}");
        }
    }
}
