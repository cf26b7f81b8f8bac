//! Following files and folders.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tollgate_rules::{Request, RuleLimiter};
use tollgate_server::sources::{Follower, Origin, SourceError};

use crate::support::{DEADLINE, shop, until};

/// Returns the limit of the active rule, which differs between versions of `shop`.
fn limit(limiter: &RuleLimiter) -> u64 {
    let decision = limiter.decide_now(&Request::new("GET", "/").cost(0));
    decision.tightest().map_or(0, |limit| limit.verdict.limit)
}

/// Follows a path by notifications only, without polling.
fn follow(path: &Path) -> (RuleLimiter, Follower) {
    let opened = Origin::path(path).every(Duration::from_secs(3600)).open().unwrap();
    let limiter = RuleLimiter::new(opened.rules().clone());
    let follower = opened.follow(limiter.clone());
    // The second read comes after the watch began, so every later change is reported.
    assert!(follower.wait_until(DEADLINE, |status| status.reads >= 2));
    (limiter, follower)
}

fn assert_becomes(limiter: &RuleLimiter, follower: &Follower, expected: u64) {
    let now = || format!("{expected}; is {}, {:?}", limit(limiter), follower.status());
    let came = follower.wait_until(DEADLINE, |_| limit(limiter) == expected);
    assert!(came, "not in time: {}", now());
}

#[test]
fn an_invalid_file_is_an_error_at_start() {
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
fn a_file_written_in_place_is_reloaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.yaml");
    fs::write(&path, shop("1/h")).unwrap();
    let (limiter, follower) = follow(&path);
    assert_eq!(limit(&limiter), 1);
    for n in 2..5 {
        fs::write(&path, shop(&format!("{n}/h"))).unwrap();
        assert_becomes(&limiter, &follower, n);
    }
    assert_eq!(follower.status().failures, 0);
}

#[test]
fn a_file_replaced_by_rename_is_reloaded_every_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.yaml");
    fs::write(&path, shop("1/h")).unwrap();
    let (limiter, follower) = follow(&path);
    for n in 2..6 {
        let beside = folder.path().join("shop.yaml.swp");
        fs::write(&beside, shop(&format!("{n}/h"))).unwrap();
        fs::rename(&beside, &path).unwrap();
        assert_becomes(&limiter, &follower, n);
    }
    // Some editors remove the file and create it again.
    fs::remove_file(&path).unwrap();
    assert!(follower.wait_until(DEADLINE, |status| status.last_error.is_some()));
    assert_eq!(limit(&limiter), 5, "the old rules stay active");
    fs::write(&path, shop("9/h")).unwrap();
    assert_becomes(&limiter, &follower, 9);
}

/// Kubernetes mounts a ConfigMap this way: files are links through `..data`, and only that link
/// is replaced.
#[cfg(unix)]
#[test]
fn a_replaced_config_map_is_reloaded() {
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
        assert_becomes(&by_file, &file, n);
        assert_becomes(&by_folder, &whole, n);
    }
}

/// The folder itself is a link, as in deployments that keep several releases.
#[cfg(unix)]
#[test]
fn a_folder_link_with_a_new_target_is_reloaded() {
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
        assert_becomes(&limiter, &follower, n);
    }
    // The new target is watched too.
    fs::write(folder.path().join("release3/shop.yaml"), shop("7/h")).unwrap();
    assert_becomes(&limiter, &follower, 7);
}

#[test]
fn added_and_removed_files_of_a_folder_are_noticed() {
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
fn invalid_rules_are_reported_and_the_old_rules_stay_active() {
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
    assert_becomes(&limiter, &follower, 2);
    assert!(follower.wait_until(DEADLINE, |status| status.last_error.is_none()));
}

#[test]
fn polling_finds_changes_without_notifications() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.yaml");
    fs::write(&path, shop("1/h")).unwrap();
    let origin = Origin::path(&path).watch(false).every(Duration::from_millis(5));
    let opened = origin.open().unwrap();
    let limiter = RuleLimiter::new(opened.rules().clone());
    let follower = opened.follow(limiter.clone());
    // Equal content is not a reload, however often it is read.
    fs::write(&path, shop("1/h")).unwrap();
    assert!(follower.wait_until(DEADLINE, |status| status.reads > 5));
    assert_eq!(follower.status().reloads, 0);
    fs::write(&path, shop("2/h")).unwrap();
    assert_becomes(&limiter, &follower, 2);
}

#[test]
fn a_dropped_follower_releases_its_target() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.yaml");
    fs::write(&path, shop("1/h")).unwrap();
    let target = std::sync::Arc::new(());
    let opened = Origin::path(&path).open().unwrap();
    let captured = target.clone();
    let follower = opened.follow(move |_| drop(captured.clone()));
    assert_eq!(std::sync::Arc::strong_count(&target), 2);
    drop(follower);
    until("the target is released", || std::sync::Arc::strong_count(&target) == 1);
}
