//! Conversion of settings to the configuration of a server.

use std::path::Path;

use anyhow::Context;
use tollgate_server::Config;
use tollgate_server::sources::Origin;

use super::args::ServeArgs;

/// Returns the configuration of a server, and reads the token files.
pub(super) fn config(args: &ServeArgs) -> anyhow::Result<Config> {
    let mut config = Config::default();
    args.store.apply(&mut config)?;
    let data = args.access.data();
    config.rules = args.rules.as_deref().map(|rules| origin(args, rules, &data)).transpose()?;
    args.doors.apply(&args.tls, &mut config)?;
    config.gateway = args.gateway.options(args.tls.options("gateway")?)?;
    args.access.apply(&mut config)?;
    args.identity.apply(&mut config)?;
    args.bounds.apply(&mut config);
    args.telemetry.apply(&mut config)?;
    Ok(config)
}

fn origin(args: &ServeArgs, rules: &str, data: &Path) -> anyhow::Result<Origin> {
    let origin = Origin::parse(rules).context("--rules")?;
    let origin = origin.token(args.rules_token.clone()).copy_folder(data);
    Ok(origin.merge_domains(args.envoy_merge_domains))
}

#[cfg(test)]
mod tests {
    use clap::{Parser, Subcommand};
    use tollgate_server::config::GatewayOptions;

    use super::*;

    /// A command line with the settings of a server alone.
    #[derive(Parser)]
    struct SettingsCli {
        #[command(subcommand)]
        command: SettingsCommand,
    }

    #[derive(Subcommand)]
    enum SettingsCommand {
        Serve(Box<ServeArgs>),
    }

    fn config_of(flags: &[&str]) -> Config {
        let words = ["tollgate", "serve"].iter().chain(flags);
        let SettingsCommand::Serve(args) = SettingsCli::parse_from(words).command;
        config(&args).unwrap()
    }

    /// The defaults in the help are those of the library.
    #[test]
    fn the_defaults_of_flags_are_those_of_the_server() {
        let mut found = config_of(&[]);
        found.data = None;
        assert_eq!(format!("{found:?}"), format!("{:?}", Config::default()));
        let found = config_of(&["--to", "http://localhost:3000"]).gateway.unwrap();
        let default = GatewayOptions::to(vec!["http://localhost:3000".parse().unwrap()]);
        assert_eq!(format!("{found:?}"), format!("{default:?}"));
    }
}
