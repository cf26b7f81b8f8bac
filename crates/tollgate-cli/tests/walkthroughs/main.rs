//! Runs the steps of the pages in `docs/over-the-limit`, and checks rules and links in all pages.

mod everywhere;
mod page;
mod printed;
mod reader;

use page::{Page, PageStep, root};

const FOLDER: &str = "docs/over-the-limit";

/// One test for each page, so that a failure names it.
macro_rules! pages {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            let page = Page::open(&format!("{FOLDER}/{}.md", stringify!($name)));
            let shows = |step: &PageStep| matches!(step, PageStep::Command { printed, .. } if !printed.is_empty());
            assert!(page.steps().iter().any(shows), "it shows nothing to try");
            reader::follow(&page);
        })*

        #[test]
        fn no_page_is_forgotten() {
            let mut pages: Vec<String> = std::fs::read_dir(root().join(FOLDER))
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            pages.sort();
            // The README lists the other pages.
            let tested = ["README.md".to_owned()].into_iter();
            let tested = tested.chain([$(format!("{}.md", stringify!($name))),*]);
            assert_eq!(pages, tested.collect::<Vec<_>>());
            // The Rust programs of pages are doctests of tollgate-tower.
            let doctests = root().join("crates/tollgate-tower/src/pages.rs");
            let doctests = std::fs::read_to_string(doctests).unwrap();
            for page in [$(stringify!($name)),*] {
                assert!(doctests.contains(&format!("/{page}.md\"")), "no doctests of {page}");
            }
        }
    };
}

pages! { adaptive ban count dedupe defer fair modes queue settle shed }
