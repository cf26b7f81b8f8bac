//! The fuzz target of access logs.

use super::{AccessLogFormat, EntrySorter};

/// The formats that a line may have.
const FORMATS: [AccessLogFormat; 4] = [
    AccessLogFormat::Common,
    AccessLogFormat::Combined,
    AccessLogFormat::Json,
    AccessLogFormat::Envoy,
];

/// Reads any bytes as the lines of an access log.
///
/// What is detected is what one of the formats reads. No request has more attributes than its line
/// has characters, and the sorter returns as many requests as it was given.
pub fn access_log(bytes: &[u8]) {
    let (mut sorter, mut pushed, mut popped) = (EntrySorter::default(), 0, 0);
    for line in bytes.split(|byte| *byte == b'\n') {
        let entry = match AccessLogFormat::Auto.parse(line, &[]) {
            Ok(entry) => entry,
            Err(reason) => {
                assert!(!reason.is_empty());
                continue;
            }
        };
        let same = |format: &AccessLogFormat| format.parse(line, &[]).as_ref() == Ok(&entry);
        assert!(FORMATS.iter().any(same), "{entry:?}");
        let _ = (entry.request(), entry.outcome());
        pushed += 1;
        popped += usize::from(sorter.push(entry).is_some());
    }
    popped += std::iter::from_fn(|| sorter.pop()).count();
    assert_eq!(popped, pushed);
}
