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
