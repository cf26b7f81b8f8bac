//! Following files and folders.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tollgate::rules::RuleLimiter;
use tollgate::{Limiter, Request};
use tollgate_server::sources::{Follower, Origin, SourceError};

use crate::support::{DEADLINE, shop, until};

/// The burst of the rule in force: tells one version of `shop` from another.
fn limit(limiter: &RuleLimiter) -> u64 {
    let decision = limiter.decide(&Request::new("GET", "/").cost(0));
    decision.tightest().map_or(0, |limit| limit.verdict.limit)
}

/// Follows without ever polling: only what is reported is noticed.
fn follow(path: &Path) -> (RuleLimiter, Follower) {
    let opened = Origin::path(path).every(Duration::from_secs(3600)).open().unwrap();
    let limiter = Limiter::from_rules(opened.rules().clone());
    let follower = opened.follow(limiter.clone());
    // The first look comes after the watch began: from here on every change is reported.
    assert!(follower.wait_until(DEADLINE, |status| status.looks >= 2));
    (limiter, follower)
}

fn becomes(limiter: &RuleLimiter, follower: &Follower, expected: u64) {
    let now = || format!("{expected}; is {}, {:?}", limit(limiter), follower.status());
    let came = follower.wait_until(DEADLINE, |_| limit(limiter) == expected);
    assert!(came, "never came true: {}", now());
}

#[test]
fn a_wrong_file_is_an_error_at_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.yaml");
    fs::write(&path, "rules:\n  - { nmae: api }\n").unwrap();
    let error = Origin::path(&path).open().unwrap_err();
    assert!(matches!(error, SourceError::Invalid(_)));
    assert!(error.to_string().contains("shop.yaml:2:"), "{error}");
    let missing = Origin::path(folder.path().join("none.yaml")).open().unwrap_err();
    assert!(matches!(missing, SourceError::Unreadable { .. }));
}

#[test]
fn a_file_that_is_written_in_place_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.yaml");
    fs::write(&path, shop("1/h")).unwrap();
    let (limiter, follower) = follow(&path);
    assert_eq!(limit(&limiter), 1);
    for n in 2..5 {
        fs::write(&path, shop(&format!("{n}/h"))).unwrap();
        becomes(&limiter, &follower, n);
    }
    assert_eq!(follower.status().failures, 0);
}

#[test]
fn an_editor_that_renames_is_noticed_again_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.yaml");
    fs::write(&path, shop("1/h")).unwrap();
    let (limiter, follower) = follow(&path);
    for n in 2..6 {
        let beside = folder.path().join("shop.yaml.swp");
        fs::write(&beside, shop(&format!("{n}/h"))).unwrap();
        fs::rename(&beside, &path).unwrap();
        becomes(&limiter, &follower, n);
    }
    // Removed and made anew, as some editors do.
    fs::remove_file(&path).unwrap();
    assert!(follower.wait_until(DEADLINE, |status| status.last_error.is_some()));
    assert_eq!(limit(&limiter), 5, "the old rules go on");
    fs::write(&path, shop("9/h")).unwrap();
    becomes(&limiter, &follower, 9);
}

/// As Kubernetes mounts a ConfigMap: the files are links through `..data`, and only that link is
/// ever exchanged.
#[cfg(unix)]
#[test]
fn a_config_map_that_is_exchanged_is_noticed() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let mount = folder.path();
    let publish = |n: u64| {
        let version = mount.join(format!("..v{n}"));
        fs::create_dir(&version).unwrap();
        fs::write(version.join("shop.yaml"), shop(&format!("{n}/h"))).unwrap();
        symlink(format!("..v{n}"), mount.join("..data_tmp")).unwrap();
        fs::rename(mount.join("..data_tmp"), mount.join("..data")).unwrap();
        if n > 1 {
            fs::remove_dir_all(mount.join(format!("..v{}", n - 1))).unwrap();
        }
    };
    publish(1);
    symlink("..data/shop.yaml", mount.join("shop.yaml")).unwrap();
    let (by_file, file) = follow(&mount.join("shop.yaml"));
    let (by_folder, whole) = follow(mount);
    for n in 2..6 {
        publish(n);
        becomes(&by_file, &file, n);
        becomes(&by_folder, &whole, n);
    }
}

/// The folder itself is a link, as in deployments that keep several releases.
#[cfg(unix)]
#[test]
fn a_folder_that_is_a_link_is_noticed_when_it_leads_elsewhere() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let current = folder.path().join("current");
    for n in 1..4 {
        let release = folder.path().join(format!("release{n}"));
        fs::create_dir(&release).unwrap();
        fs::write(release.join("shop.yaml"), shop(&format!("{n}/h"))).unwrap();
    }
    symlink("release1", &current).unwrap();
    let (limiter, follower) = follow(&current);
    for n in 2..4 {
        symlink(format!("release{n}"), folder.path().join("next")).unwrap();
        fs::rename(folder.path().join("next"), &current).unwrap();
        becomes(&limiter, &follower, n);
    }
    // And what it leads to now is watched too.
    fs::write(folder.path().join("release3/shop.yaml"), shop("7/h")).unwrap();
    becomes(&limiter, &follower, 7);
}

#[test]
fn files_come_and_go_in_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("shop.yaml"), shop("1/h")).unwrap();
    let (limiter, follower) = follow(folder.path());
    let mail = "domain: mail\nrules: [{ name: send, limit: 5/d }]\n";
    fs::write(folder.path().join("mail.yaml"), mail).unwrap();
    let domains = || limiter.rules().domain_names().count();
    assert!(follower.wait_until(DEADLINE, |_| domains() == 2));
    fs::remove_file(folder.path().join("mail.yaml")).unwrap();
    assert!(follower.wait_until(DEADLINE, |_| domains() == 1));
}

#[test]
fn wrong_rules_are_reported_and_the_old_ones_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.yaml");
    fs::write(&path, shop("1/h")).unwrap();
    let (limiter, follower) = follow(&path);
    let version = follower.status().version;
    fs::write(&path, "domain: shop\nrules: [{ name: api, limit: 9/m }]\n").unwrap();
    assert!(follower.wait_until(DEADLINE, |status| status.last_error.is_some()));
    let status = follower.status();
    assert!(status.last_error.unwrap().contains("shop.yaml:2:"));
    assert_eq!((status.failures >= 1, status.version), (true, version));
    assert_eq!(limit(&limiter), 1);
    fs::write(&path, shop("2/h")).unwrap();
    becomes(&limiter, &follower, 2);
    assert!(follower.wait_until(DEADLINE, |status| status.last_error.is_none()));
}

#[test]
fn where_nothing_is_reported_polling_finds_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.yaml");
    fs::write(&path, shop("1/h")).unwrap();
    let origin = Origin::path(&path).watch(false).every(Duration::from_millis(5));
    let opened = origin.open().unwrap();
    let limiter = Limiter::from_rules(opened.rules().clone());
    let follower = opened.follow(limiter.clone());
    // The same content again, however often it is looked at, is no reload.
    fs::write(&path, shop("1/h")).unwrap();
    assert!(follower.wait_until(DEADLINE, |status| status.looks > 5));
    assert_eq!(follower.status().reloads, 0);
    fs::write(&path, shop("2/h")).unwrap();
    becomes(&limiter, &follower, 2);
}

#[test]
fn a_follower_that_is_dropped_lets_go() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.yaml");
    fs::write(&path, shop("1/h")).unwrap();
    let held = std::sync::Arc::new(());
    let opened = Origin::path(&path).open().unwrap();
    let inside = held.clone();
    let follower = opened.follow(move |_| drop(inside.clone()));
    assert_eq!(std::sync::Arc::strong_count(&held), 2);
    drop(follower);
    until("the target is let go", || std::sync::Arc::strong_count(&held) == 1);
}
