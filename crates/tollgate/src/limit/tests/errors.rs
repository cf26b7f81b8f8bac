//! The exact error messages for texts that are not limits.

use crate::limit::Limit;

fn error(text: &str) -> String {
    match text.parse::<Limit>() {
        Ok(limit) => panic!("{text:?} is a limit: {limit}"),
        Err(error) => error.to_string(),
    }
}

/// Checks each block of the file, which is a whole error with the text on its second line.
#[test]
fn errors_have_a_position_a_message_and_a_fix() {
    let blocks = include_str!("errors.txt").trim_end().split("\n\n");
    for block in blocks.clone() {
        let text = block.lines().nth(1).expect("a message, then the text").trim_start();
        assert_eq!(error(text), block);
    }
    assert!(blocks.count() > 80);
}

#[test]
fn an_empty_text_is_not_quoted() {
    let message = "a limit is missing: write one such as \"10/s\" or \"100 concurrent\"";
    assert_eq!(error(""), message);
    assert_eq!(error(" \n "), message);
}

#[test]
fn control_characters_are_not_printed() {
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
fn overlong_texts_are_truncated_and_not_parsed() {
    let error = "é".repeat(1_000_000).parse::<Limit>().unwrap_err();
    assert_eq!(error.message, "a limit is at most 200 bytes long, this is 2000000");
    assert_eq!((error.at, error.column()), (200, 101));
    assert_eq!(error.input.chars().count(), 101);
    let padded = format!("10/s{}", " ".repeat(200));
    assert!(padded.parse::<Limit>().is_err());
}

#[test]
fn a_suggestion_is_a_whole_limit_if_there_is_one_error() {
    let suggestion = |text: &str| text.parse::<Limit>().unwrap_err().suggestion;
    assert_eq!(suggestion("10/mn burst 20").as_deref(), Some("10/min burst 20"));
    assert_eq!(suggestion("10/mn brust 20").as_deref(), Some("min"));
}
