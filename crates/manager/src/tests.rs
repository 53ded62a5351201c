//! The application that the tests of this crate run: that of the four kinds. A crate under test is compiled
//! twice, so that its type is not that of `quartet_operator::APPLICATION`.

use super::*;

pub(crate) static APPLICATION: Application = {
    let given = &quartet_operator::APPLICATION;
    Application {
        name: given.name,
        version: given.version,
        about: given.about,
        operators: given.operators,
        brand: given.brand,
        legacy: given.legacy,
        metrics_prefix: given.metrics_prefix,
        namespace: given.namespace,
        webhook_secret: given.webhook_secret,
        webhook_manager: given.webhook_manager,
        webhook_service: given.webhook_service,
        webhook_configuration: given.webhook_configuration,
        lease: given.lease,
        lease_flags: given.lease_flags,
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
