//! What is said about texts that are no limits, to the letter.

use crate::limit::Limit;

fn error(text: &str) -> String {
    match text.parse::<Limit>() {
        Ok(limit) => panic!("{text:?} is a limit: {limit}"),
        Err(error) => error.to_string(),
    }
}

/// Each block of the file is an error in full; its second line is the text it is about.
#[test]
fn errors_say_where_what_and_how_to_mend_it() {
    let blocks = include_str!("errors.txt").trim_end().split("\n\n");
    for block in blocks.clone() {
        let text = block.lines().nth(1).expect("a message, then the text").trim_start();
        assert_eq!(error(text), block);
    }
    assert!(blocks.count() > 80);
}

#[test]
fn nothing_at_all_is_not_drawn() {
    let message = "a limit is missing: write one such as \"10/s\" or \"100 concurrent\"";
    assert_eq!(error(""), message);
    assert_eq!(error(" \n "), message);
}

#[test]
fn control_characters_keep_out_of_the_picture() {
    assert_eq!(
        error("10/s\tbrust\n20"),
        r#"unknown option "brust": the usual ones are burst, sliding, fixed, log, leaky, gcra, calendar, warmup and interval
  10/s brust 20
       ^^^^^
did you mean "10/s burst 20"?"#
    );
    assert!(!error("10/s burst=\u{7}").contains('\u{7}'));
}

#[test]
fn overlong_texts_are_cut_and_not_read() {
    let error = "é".repeat(1_000_000).parse::<Limit>().unwrap_err();
    assert_eq!(error.message, "a limit is at most 200 bytes long, this is 2000000");
    assert_eq!((error.at, error.column()), (200, 101));
    assert_eq!(error.input.chars().count(), 101);
    let padded = format!("10/s{}", " ".repeat(200));
    assert!(padded.parse::<Limit>().is_err());
}

#[test]
fn a_suggestion_is_a_limit_if_nothing_else_is_wrong() {
    let suggestion = |text: &str| text.parse::<Limit>().unwrap_err().suggestion;
    assert_eq!(suggestion("10/mn burst 20").as_deref(), Some("10/min burst 20"));
    assert_eq!(suggestion("10/mn brust 20").as_deref(), Some("min"));
}
