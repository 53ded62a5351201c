//! The kinds. A new kind is a file here and one line in this list, whose order is that of the manifests.

use crate::operators::Operator;

macro_rules! kinds {
    ($($module:ident::$operator:ident,)*) => {
        $(pub mod $module;)*

        /// Every operator of the manager.
        pub static OPERATORS: &[&dyn Operator] = &[$(&$module::$operator,)*];
    };
}

kinds! {
    memcached::Memcached,
    nginx::Nginx,
    elasticweb::ElasticWeb,
    helloworld::HelloWorld,
}
