//! `api-list FILE…`: lists the public API of crates, one item a line, from the JSON of rustdoc.

use std::path::PathBuf;

use public_api::{Builder, Error};

fn main() -> Result<(), Error> {
    for file in std::env::args_os().skip(1) {
        let api = Builder::from_rustdoc_json(PathBuf::from(file))
            .omit_auto_derived_impls(true)
            .omit_auto_trait_impls(true)
            .omit_blanket_impls(true)
            .build()?;
        for item in api.items() {
            println!("{item}");
        }
    }
    Ok(())
}
