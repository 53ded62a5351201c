//! The list of all kinds. A new kind is one line here, a file in `src/api` and one in `src/operators`.
//! Used by `api` and `operators`, which declare these files as modules.

/// Passes the list to the macro `$then`: for each kind, the name of both files and the operator. The
/// order is that of the manifests.
macro_rules! with_kinds {
    ($then:ident) => {
        $then! {
            memcached::Memcached,
            nginx::Nginx,
            elasticweb::ElasticWeb,
            helloworld::HelloWorld,
        }
    };
}
pub(crate) use with_kinds;
