//! demo
use std::error::Error;
use std::process::ExitCode;
#[derive(clap::Args)]
pub(crate) struct Arguments {}
pub(crate) fn run(_: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    Ok(ExitCode::SUCCESS)
}
