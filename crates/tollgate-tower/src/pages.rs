//! Programs in the pages under `docs` are doctests of this crate: it knows the library, axum and a
//! runtime. Nothing of it is there otherwise.

/// An item for each page, since a doctest belongs to one.
macro_rules! pages {
    ($($name:ident: $page:literal,)*) => {
        $(#[doc = include_str!(concat!("../../../docs/", $page))]
        struct $name;)*
    };
}

pages! {
    Gateway: "gateway.md",
    Adaptive: "over-the-limit/adaptive.md",
    Ban: "over-the-limit/ban.md",
    Count: "over-the-limit/count.md",
    Dedupe: "over-the-limit/dedupe.md",
    Defer: "over-the-limit/defer.md",
    Fair: "over-the-limit/fair.md",
    Modes: "over-the-limit/modes.md",
    Queue: "over-the-limit/queue.md",
    Settle: "over-the-limit/settle.md",
    Shed: "over-the-limit/shed.md",
}
