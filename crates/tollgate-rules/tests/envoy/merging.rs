//! Several files of one domain, as with the original's `MERGE_DOMAIN_CONFIG`.

use tollgate_rules::envoy::{Code, Descriptor, Domains, RateLimitRequest};
use tollgate_rules::{Rules, Source};

use super::service::read;

const USERS: &str = "
domain: d
descriptors:
  - { key: user, rate_limit: { name: users, unit: minute, requests_per_unit: 1 } }
";
const ORGS: &str = "
domain: d
descriptors:
  - { key: org, rate_limit: { unit: minute, requests_per_unit: 2, replaces: [{ name: users }] } }
";

fn merge(files: &[&str]) -> Result<Domains, String> {
    let named = files.iter().enumerate();
    let sources = named.map(|(number, text)| Source::new(format!("{number}.yaml"), *text));
    Domains::read_merged(sources).map_err(|found| found.to_string())
}

#[test]
fn without_the_setting_a_second_file_of_a_domain_is_an_error() {
    let found = read(&[USERS, ORGS]).unwrap_err().to_string();
    assert!(
        found.contains("duplicate-domain") && found.contains("--envoy-merge-domains"),
        "{found}"
    );
}

#[test]
fn files_of_one_domain_are_merged_and_their_limits_replace_each_other() {
    let domains = merge(&[USERS, ORGS]).unwrap();
    assert!(domains.warnings().is_empty(), "{}", domains.warnings());
    let store = tollgate::MemoryStore::new();
    let descriptors = [Descriptor::new(&[("user", "ann")]), Descriptor::new(&[("org", "acme")])];
    let codes =
        [0; 3].map(|_| domains.decide(&store, &RateLimitRequest::new("d", &descriptors)).overall);
    assert_eq!(codes, [Code::Ok, Code::Ok, Code::OverLimit], "the limit of users is replaced");
}

#[test]
fn a_key_that_two_files_describe_is_an_error() {
    let found = merge(&[USERS, USERS]).unwrap_err();
    assert!(found.contains("duplicate-descriptor"), "{found}");
    // The original rejects this too, although the levels below differ.
    let deeper = "
domain: d
descriptors:
  - { key: user, descriptors: [{ key: route, rate_limit: { unit: day, requests_per_unit: 1 } }] }
";
    assert!(merge(&[USERS, deeper]).is_err());
}

#[test]
fn a_strict_file_is_not_merged_with_one_that_is_not() {
    let strict = "{ domain: d, strict: true, descriptors: [{ key: other }] }";
    let found = merge(&[USERS, strict]).unwrap_err();
    assert!(found.contains("strict"), "{found}");
}

#[test]
fn a_name_that_no_file_of_the_domain_has_is_a_warning() {
    let found = merge(&[ORGS, "{ domain: e, descriptors: [] }"]).unwrap().warnings().to_string();
    assert!(found.contains("unknown-name") && found.contains("users"), "{found}");
}

#[test]
fn rules_files_are_never_merged() {
    let rules = "{ domain: d, rules: [{ name: all, limit: 1/s }] }";
    for files in [[rules, rules], [USERS, rules]] {
        let sources = files.map(|text| Source::new("f.yaml", text));
        let found = Rules::read_merged(sources).unwrap_err().to_string();
        assert!(found.contains("duplicate-domain"), "{found}");
    }
}
