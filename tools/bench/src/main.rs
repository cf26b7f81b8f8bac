//! Measures tollgate against its peers: same traffic, same limits, same run.
//!
//! ```text
//! cargo run --profile dist --package tollgate-bench            # the table and the targets
//! cargo run --profile dist --package tollgate-bench -- --help  # the rest
//! ```
//!
//! Compare ratios within one run, never times across machines.

mod adaptive;
mod batch;
mod cores;
mod doors;
mod figures;
mod gateway;
mod gateway_process;
mod in_redis;
mod instructions;
mod layer;
mod limiters;
mod measure;
mod memory;
mod neighbour;
mod options;
mod process;
mod programs;
mod report;
mod rules;
mod scaling;
mod sections;
mod shaping;
mod subjects;
mod targets;
mod workload;

use std::process::ExitCode;

use options::{Options, USAGE};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    match Options::parse(args.into_iter()).and_then(|options| run(&options)) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("tollgate-bench: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> Result<ExitCode, String> {
    match options.command.as_str() {
        memory::CHILD => memory::child(&options.arguments)?,
        instructions::CHILD => instructions::child(&options.arguments)?,
        "doors" => doors::run(options)?,
        "gateway" => gateway::run(options)?,
        _ if !options.arguments.is_empty() => {
            return Err(format!("unexpected `{}`\n{USAGE}", options.arguments[0]));
        }
        "redis" => in_redis::run(options)?,
        "engine" => {
            head(options);
            let figures = limiters::measure(options);
            limiters::print(&figures, options);
            let ratio = batch::run(options);
            let fills = memory::run(options);
            targets::print(&figures, ratio, &fills, options);
            rules::run(options);
        }
        "memory" => {
            head(options);
            memory::run(options);
        }
        "scaling" => {
            head(options);
            scaling::run(options);
        }
        "rules" => {
            head(options);
            rules::run(options);
        }
        "layer" => {
            head(options);
            layer::run(options);
        }
        "shaping" => shaping::run(options)?,
        "neighbour" => neighbour::run(options)?,
        "adaptive" => adaptive::run(options),
        "batch" => {
            head(options);
            batch::run(options);
        }
        "instructions" => {
            report::head();
            return Ok(instructions::run(options));
        }
        other => return Err(format!("no command `{other}`\n{USAGE}")),
    }
    Ok(ExitCode::SUCCESS)
}

fn head(options: &Options) {
    report::head();
    println!(
        "method:  median of {} interleaved rounds of {} decisions per thread; key sequences made \
         beforehand, the same for all; tables warm",
        options.rounds,
        report::count(options.decisions)
    );
}
