//! Which tokens are valid, and which are not.

use serde_json::Value;
use tollgate_rig::{Upstream, WebClient};
use tollgate_server::config::JwtAlgorithm;

use super::{KNOWN, NOW_S, made_tokens, verifying, with_token, write};
use crate::programs::node;
use crate::support::Gateway;

const ALL: [JwtAlgorithm; 10] = [
    JwtAlgorithm::Rs256,
    JwtAlgorithm::Rs384,
    JwtAlgorithm::Rs512,
    JwtAlgorithm::Ps256,
    JwtAlgorithm::Ps384,
    JwtAlgorithm::Ps512,
    JwtAlgorithm::Es256,
    JwtAlgorithm::Es384,
    JwtAlgorithm::EdDsa,
    JwtAlgorithm::Hs256,
];

fn each(value: &Value) -> impl Iterator<Item = (&str, &str)> {
    value.as_object().unwrap().iter().map(|(name, token)| (name.as_str(), token.as_str().unwrap()))
}

fn status(gateway: &Gateway, token: &str) -> u16 {
    with_token(gateway, token).status()
}

#[test]
fn tokens_of_pyjwt_are_verified_with_keys_in_pem_and_in_sets() {
    let (made, upstream) = (made_tokens(), Upstream::start());
    let folder = tempfile::tempdir().unwrap();
    for (name, keys) in
        [("pem", made["pem"].as_str().unwrap()), ("jwks", &made["jwks"].to_string())]
    {
        let keys = write(folder.path(), name, keys);
        let (gateway, _) = verifying(KNOWN, &upstream, keys.clone(), &ALL, |_| {});
        for (alg, token) in each(&made["valid"]) {
            let expected = if alg == "HS256" { 200 } else { 418 };
            assert_eq!(status(&gateway, token), expected, "{alg} with {name}");
            assert_eq!(status(&gateway, token), expected, "{alg} from the cache");
        }
        // What is not pinned is not accepted, though a key would verify it.
        let (gateway, _) = verifying(KNOWN, &upstream, keys, &[JwtAlgorithm::EdDsa], |_| {});
        for (alg, token) in each(&made["valid"]) {
            assert_eq!(status(&gateway, token), if alg == "EdDSA" { 418 } else { 200 }, "{alg}");
        }
    }
    let secret = write(folder.path(), "secret", &made["secret"].to_string());
    let (gateway, _) = verifying(KNOWN, &upstream, secret, &[JwtAlgorithm::Hs256], |_| {});
    for (alg, token) in each(&made["valid"]) {
        assert_eq!(status(&gateway, token), if alg == "HS256" { 418 } else { 200 }, "{alg}");
    }
}

#[test]
fn tokens_of_jose_are_verified() {
    let printed = node("../gateway/scripts/tokens.mjs", &[&NOW_S.to_string()]);
    let made: Value = serde_json::from_str(&printed).unwrap();
    let (upstream, folder) = (Upstream::start(), tempfile::tempdir().unwrap());
    let sets = write(folder.path(), "jwks", &made["jwks"].to_string());
    let (gateway, _) = verifying(KNOWN, &upstream, sets, &ALL, |_| {});
    for (alg, token) in each(&made["tokens"]) {
        assert_eq!(status(&gateway, token), 418, "{alg}");
    }
    let pem = write(folder.path(), "pem", made["pem"].as_str().unwrap());
    let nested = "rules: [{ name: org, when: jwt.org.id == 7, then: deny 418 }]";
    let (gateway, _) = verifying(nested, &upstream, pem, &ALL, |_| {});
    for (alg, token) in each(&made["tokens"]).filter(|(alg, _)| *alg != "HS256") {
        assert_eq!(status(&gateway, token), 418, "{alg}");
    }
}

#[test]
fn no_claim_of_an_invalid_token_becomes_an_attribute() {
    let (made, upstream) = (made_tokens(), Upstream::start());
    let folder = tempfile::tempdir().unwrap();
    // The public keys and the secret, as one set: even then no token passes with another's algorithm.
    let mut all = made["jwks"].clone();
    let secret = made["secret"]["keys"][0].clone();
    all["keys"].as_array_mut().unwrap().push(secret);
    let any = |jwt: &str| {
        format!("rules: [{{ name: any, when: 'has(jwt.sub) || has({jwt})', then: deny 418 }}]")
    };
    for (name, keys) in
        [("pem", made["pem"].as_str().unwrap().to_owned()), ("all", all.to_string())]
    {
        let keys = write(folder.path(), name, &keys);
        let (gateway, _) = verifying(&any("jwt.plan"), &upstream, keys.clone(), &ALL, |_| {});
        let (strict, _) = verifying(&any("jwt.iss"), &upstream, keys, &ALL, |options| {
            options.required = true;
        });
        let mut count = 0;
        for (attack, token) in each(&made["attacks"]) {
            assert_eq!(status(&gateway, token), 200, "{attack} with {name}");
            let answer = with_token(&strict, token);
            assert_eq!(answer.status(), 401, "{attack} with {name}");
            let challenge = answer.header("www-authenticate").unwrap();
            let expected =
                if token.is_empty() { "Bearer" } else { "Bearer error=\"invalid_token\"" };
            assert_eq!(challenge, expected, "{attack}");
            assert!(token.is_empty() || !answer.text().contains(token), "a token is not shown");
            count += 1;
        }
        assert!(count >= 30, "{count}");
    }
}

#[test]
fn a_request_has_one_token() {
    let (made, upstream) = (made_tokens(), Upstream::start());
    let folder = tempfile::tempdir().unwrap();
    let keys = write(folder.path(), "pem", made["pem"].as_str().unwrap());
    let (gateway, _) = verifying(KNOWN, &upstream, keys, &[], |_| {});
    let good = format!("Bearer {}", made["valid"]["RS256"].as_str().unwrap());
    let bad = format!("Bearer {}", made["attacks"]["another key"].as_str().unwrap());
    let send = |fields: &[&str]| {
        let fields: Vec<_> = fields.iter().map(|field| ("Authorization", *field)).collect();
        gateway.connect().get_with("/", &fields).status()
    };
    assert_eq!(send(&[&good]), 418);
    assert_eq!(send(&[&good.replace("Bearer", "bEARER")]), 418);
    assert_eq!(send(&[&good, &bad]), 200, "two tokens are none");
    assert_eq!(send(&[&bad, &good]), 200);
    assert_eq!(send(&[&format!("{good}, {bad}")]), 200);
    assert_eq!(send(&["Basic YTpi", &good]), 200);
    assert_eq!(send(&["Basic YTpi"]), 200);
    assert_eq!(send(&[]), 200);
    assert_eq!(send(&[&good.replace("Bearer", "")]), 200);
}

#[test]
fn a_token_that_expires_in_the_cache_is_no_longer_valid() {
    let (made, upstream) = (made_tokens(), Upstream::start());
    let folder = tempfile::tempdir().unwrap();
    let keys = write(folder.path(), "pem", made["pem"].as_str().unwrap());
    let (gateway, clock) = verifying(KNOWN, &upstream, keys, &[], |_| {});
    let token = made["dated"].as_str().unwrap();
    assert_eq!(status(&gateway, token), 418);
    // It expires after 100 s, and clocks may differ by 30 s.
    clock.step_wall(std::time::Duration::from_secs(129));
    assert_eq!(status(&gateway, token), 418);
    clock.step_wall(std::time::Duration::from_secs(1));
    assert_eq!(status(&gateway, token), 200);
    clock.step_wall_back(std::time::Duration::from_secs(30));
    assert_eq!(status(&gateway, token), 418, "the date decides, whatever it was before");
}

#[test]
fn clients_are_counted_by_their_verified_claims() {
    let (made, upstream) = (made_tokens(), Upstream::start());
    let folder = tempfile::tempdir().unwrap();
    let keys = write(folder.path(), "jwks", &made["jwks"].to_string());
    let rules = "
attributes: { plan: jwt.plan }
plans: { default: { api: 1/h }, pro: { api: 3/h } }
rules: [{ name: api, per: jwt.sub, limit: plan.api }]";
    let (gateway, _) = verifying(rules, &upstream, keys, &[], |_| {});
    let statuses = |token: &str| [(); 4].map(|()| status(&gateway, token));
    assert_eq!(statuses(made["valid"]["RS256"].as_str().unwrap()), [200, 200, 200, 429]);
    let other = made["valid"]["EdDSA"].as_str().unwrap();
    assert_eq!(statuses(other), [429; 4], "another token of the same client");
    let forged = made["attacks"]["alg none"].as_str().unwrap();
    assert_eq!(
        statuses(forged),
        [200, 429, 429, 429],
        "the default plan, shared by all without one"
    );
    assert_eq!(gateway.connect().get("/").status(), 429, "also by requests without a token");
}

#[test]
fn forward_auth_sees_the_same_claims() {
    let (made, upstream) = (made_tokens(), Upstream::start());
    let folder = tempfile::tempdir().unwrap();
    let keys = write(folder.path(), "pem", made["pem"].as_str().unwrap());
    let (gateway, _) = verifying(KNOWN, &upstream, keys.clone(), &[], |_| {});
    let (strict, _) = verifying(KNOWN, &upstream, keys, &[], |options| options.required = true);
    let good = format!("Bearer {}", made["valid"]["ES256"].as_str().unwrap());
    let bad = format!("Bearer {}", made["attacks"]["changed claims"].as_str().unwrap());
    let ask = |gateway: &Gateway, query: &str, tokens: &[&str]| {
        let mut fields = vec![("X-Forwarded-Uri", "/a"), ("X-Forwarded-Method", "GET")];
        fields.extend(tokens.iter().map(|token| ("Authorization", *token)));
        WebClient::connect(gateway.http()).get_with(&format!("/v1/auth{query}"), &fields)
    };
    assert_eq!(ask(&gateway, "", &[&good]).status(), 418);
    assert_eq!(ask(&gateway, "", &[&bad]).status(), 200);
    assert_eq!(ask(&gateway, "", &[&good, &good]).status(), 200, "two tokens are none");
    assert_eq!(ask(&strict, "", &[&good]).status(), 418);
    let refused = ask(&strict, "", &[&bad]);
    assert_eq!(refused.status(), 401);
    assert_eq!(refused.header("www-authenticate"), Some("Bearer error=\"invalid_token\""));
    assert_eq!(ask(&strict, "?deny=403", &[]).status(), 403, "the proxy knows this status only");
}

#[test]
fn a_required_token_keeps_connections_and_counts_nothing() {
    let (made, upstream) = (made_tokens(), Upstream::start());
    let folder = tempfile::tempdir().unwrap();
    let keys = write(folder.path(), "pem", made["pem"].as_str().unwrap());
    let rules = "rules: [{ name: all, limit: 1/h }]";
    let (gateway, _) = verifying(rules, &upstream, keys, &[], |options| options.required = true);
    let mut client = gateway.connect();
    let good = format!("Bearer {}", made["valid"]["ES256"].as_str().unwrap());
    assert_eq!(client.get("/").status(), 401);
    assert_eq!(client.send("POST", "/", &[], "a body").status(), 401);
    let answer = client.send("POST", "/", &[("Authorization", &good)], "a body");
    assert_eq!((answer.status(), upstream.count()), (200, 1));
    assert_eq!(client.get_with("/", &[("Authorization", &good)]).status(), 429);
}
