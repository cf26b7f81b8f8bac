//! The OpenAPI description of the admin API matches the server.

use serde_json::Value;
use tollgate_rules::Source;
use tollgate_rules::yaml::YamlFile;

use super::API;
use super::client::AdminClient;
use crate::support::start;

#[test]
fn every_described_call_responds_as_described() {
    let text = include_str!("../../../src/openapi/admin.yaml");
    let source = Source::new("admin.yaml", text);
    let file = YamlFile::read(&source).unwrap();
    let described: Value = serde_json::to_value(&file.documents()[0]).unwrap();
    let server = start(API);
    let admin = AdminClient::with_all_rights(&server);
    let mut calls = 0;
    for (path, item) in described["paths"].as_object().unwrap() {
        for (method, call) in item.as_object().unwrap() {
            if method == "parameters" {
                continue;
            }
            calls += 1;
            let address = path.replace("{name}", "shop").replace("{id}", "1");
            let address = address.replace("{version}", "1");
            let response = admin.send(&method.to_uppercase(), &address, "{}", &[]);
            let status = response.status.to_string();
            assert!(!response.text.contains("such path"), "{method} {path}: {}", response.text);
            assert!(
                call["responses"].get(&status).is_some(),
                "{method} {path}: {status} {}",
                response.text
            );
        }
    }
    assert!(calls > 30, "{calls}");
    server.stop();
}
