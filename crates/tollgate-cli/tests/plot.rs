//! `--plot`: an SVG that any browser can read, for any trace.

mod support;

use support::tollgate;

/// Draws a trace, and returns the texts and the number of bars of each colour.
fn plot(args: &[&str], trace: &str) -> (Vec<String>, usize, usize) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.svg");
    std::fs::write(&path, "an older plot").unwrap();
    let args = [&["simulate", "--plot", path.to_str().unwrap()], args].concat();
    let run = tollgate(&args, trace);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let svg = std::fs::read_to_string(&path).unwrap();
    let document = roxmltree::Document::parse(&svg).expect("XML");
    let texts = document
        .descendants()
        .filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "text")));
    let texts = texts.map(|node| node.text().unwrap_or_default().trim().to_owned()).collect();
    let bars = |colour| {
        let fill = |node: &roxmltree::Node<'_, '_>| node.attribute("fill") == Some(colour);
        document.descendants().filter(fill).count()
    };
    (texts, bars("#0072B2"), bars("#E69F00"))
}

#[test]
fn the_demonstration_is_drawn_with_a_panel_for_each_algorithm() {
    let (texts, allowed, denied) = plot(&["--demo"], "");
    let has = |text: &str| texts.iter().any(|t| t == text);
    assert!(has("10/s burst 20") && has("allowed") && has("denied") && has("time in seconds"));
    assert!(has("fixed_window: 10/s fixed") && has("sliding_log: 10/s log"), "{texts:?}");
    assert!(allowed > 100 && denied > 10);
}

#[test]
fn a_single_event_and_none_at_all_are_drawn_too() {
    let args = ["--limit", "5/min", "--trace", "-"];
    let (texts, allowed, denied) = plot(&args, "{\"at_us\": 1700000000000000}");
    assert_eq!((allowed, denied), (2, 1)); // one each in the legend
    assert!(texts.iter().any(|text| text.contains("after at_us = 1700000000000000")), "{texts:?}");
    let (texts, ..) = plot(&args, "");
    assert!(texts.iter().any(|text| text.starts_with("No requests")), "{texts:?}");
    plot(&args, "{\"at_us\": 0}\n{\"at_us\": 18446744073709551}");
}

#[test]
fn a_path_that_cannot_be_written_is_an_error() {
    let demo = |path: &str| tollgate(&["simulate", "--demo", "--plot", path], "");
    let run = demo("no/such/folder/out.svg");
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    let expected = "error: cannot write the plot no/such/folder/out.svg: there is no directory no/such/folder\n";
    assert_eq!(run.stderr, expected);
    assert_eq!(demo(".").code, 2);
}
