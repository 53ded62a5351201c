//! The samples that the demo applies, with their original names.

/// One sample of `config/samples`.
pub(crate) struct Sample {
    pub(crate) kind: &'static str,
    pub(crate) name: &'static str,
    pub(crate) file: &'static str,
    /// The path of its kind in the default namespace.
    pub(crate) collection: &'static str,
    /// The number of pods of its spec.
    pub(crate) pods: usize,
}

pub(crate) const MEMCACHED: Sample = Sample {
    kind: "Memcached",
    name: "memcached-sample",
    file: "config/samples/cache_v1alpha1_memcached.yaml",
    collection: "/apis/cache.example.com/v1alpha1/namespaces/default/memcacheds",
    pods: 3,
};

pub(crate) const SAMPLES: [Sample; 4] = [
    MEMCACHED,
    Sample {
        kind: "Nginx",
        name: "nginx-sample",
        file: "config/samples/proxy_v1alpha1_nginx.yaml",
        collection: "/apis/proxy.example.com/v1alpha1/namespaces/default/nginxes",
        pods: 3,
    },
    Sample {
        kind: "ElasticWeb",
        name: "elasticweb-sample",
        file: "config/samples/elasticweb_v1_elasticweb.yaml",
        collection: "/apis/elasticweb.example.com/v1/namespaces/default/elasticwebs",
        pods: 3, // 2400 queries a second, 800 a pod
    },
    Sample {
        kind: "HelloWorld",
        name: "helloworld-sample",
        file: "config/samples/test_v1alpha1_helloworld.yaml",
        collection: "/apis/test.jiaozi.com/v1alpha1/namespaces/default/helloworlds",
        pods: 2,
    },
];
