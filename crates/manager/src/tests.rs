//! The application that the tests of this crate run: that of the four kinds. A crate under test is compiled
//! twice, so that its type is not that of `quartet_operator::APPLICATION`.

use super::*;

pub(crate) static APPLICATION: Application = {
    let given = &quartet_operator::APPLICATION;
    Application {
        version: given.version,
        about: given.about,
        operators: given.operators,
        brand: given.brand,
        legacy: given.legacy,
    }
};

#[test]
fn a_port_in_use_is_reported_with_its_address_and_flag() {
    let listener = listen("tests", "--none", "127.0.0.1:0").unwrap();
    let address = listener.as_ref().unwrap().local_addr().unwrap().to_string();
    let error = listen("tests", "--none", &address).unwrap_err();
    let expected = format!("cannot listen on {address} for tests (--none)");
    assert_eq!(error.to_string(), expected);
}
