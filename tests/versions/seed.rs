//! What the old operators left behind: their CRDs as controller-gen wrote them, one version
//! each and no bounds, and objects as users may have stored them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use quartet_operator::api::Kind;
use serde_json::{Value, json};

const MEMCACHED: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  annotations:
    controller-gen.kubebuilder.io/version: v0.14.0
  name: memcacheds.cache.example.com
spec:
  group: cache.example.com
  names:
    kind: Memcached
    listKind: MemcachedList
    plural: memcacheds
    singular: memcached
  scope: Namespaced
  versions:
  - name: v1alpha1
    schema:
      openAPIV3Schema:
        description: Memcached is the Schema for the memcacheds API
        properties:
          apiVersion:
            description: APIVersion defines the versioned schema of this representation
              of an object.
            type: string
          kind:
            description: Kind is a string value representing the REST resource this
              object represents.
            type: string
          metadata:
            type: object
          spec:
            description: MemcachedSpec defines the desired state of Memcached
            properties:
              size:
                format: int32
                type: integer
            required:
            - size
            type: object
          status:
            description: MemcachedStatus defines the observed state of Memcached
            properties:
              nodes:
                items:
                  type: string
                type: array
            required:
            - nodes
            type: object
        type: object
    served: true
    storage: true
    subresources:
      status: {}
"#;

const NGINX: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  annotations:
    controller-gen.kubebuilder.io/version: v0.14.0
  name: nginxes.proxy.example.com
spec:
  group: proxy.example.com
  names:
    kind: Nginx
    listKind: NginxList
    plural: nginxes
    singular: nginx
  scope: Namespaced
  versions:
  - name: v1alpha1
    schema:
      openAPIV3Schema:
        description: Nginx is the Schema for the nginxes API
        properties:
          apiVersion:
            type: string
          kind:
            type: string
          metadata:
            type: object
          spec:
            description: NginxSpec defines the desired state of Nginx
            properties:
              count:
                format: int32
                type: integer
            required:
            - count
            type: object
          status:
            description: NginxStatus defines the observed state of Nginx
            properties:
              nodes:
                items:
                  type: string
                type: array
            required:
            - nodes
            type: object
        type: object
    served: true
    storage: true
    subresources:
      status: {}
"#;

const ELASTIC_WEB: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  annotations:
    controller-gen.kubebuilder.io/version: v0.14.0
  name: elasticwebs.elasticweb.example.com
spec:
  group: elasticweb.example.com
  names:
    kind: ElasticWeb
    listKind: ElasticWebList
    plural: elasticwebs
    singular: elasticweb
  scope: Namespaced
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        description: ElasticWeb is the Schema for the elasticwebs API
        properties:
          apiVersion:
            type: string
          kind:
            type: string
          metadata:
            type: object
          spec:
            description: ElasticWebSpec defines the desired state of ElasticWeb
            properties:
              image:
                type: string
              port:
                format: int32
                type: integer
              singlePodsQPS:
                format: int32
                type: integer
              totalQPS:
                format: int32
                type: integer
            required:
            - image
            - port
            - singlePodsQPS
            type: object
          status:
            description: ElasticWebStatus defines the observed state of ElasticWeb
            properties:
              realQPS:
                format: int32
                type: integer
            required:
            - realQPS
            type: object
        type: object
    served: true
    storage: true
    subresources:
      status: {}
"#;

const HELLO_WORLD: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  annotations:
    controller-gen.kubebuilder.io/version: v0.14.0
  name: helloworlds.test.jiaozi.com
spec:
  group: test.jiaozi.com
  names:
    kind: HelloWorld
    listKind: HelloWorldList
    plural: helloworlds
    singular: helloworld
  scope: Namespaced
  versions:
  - name: v1alpha1
    schema:
      openAPIV3Schema:
        description: HelloWorld is the Schema for the helloworlds API
        properties:
          apiVersion:
            type: string
          kind:
            type: string
          metadata:
            type: object
          spec:
            description: HelloWorldSpec defines the desired state of HelloWorld
            properties:
              size:
                format: int32
                type: integer
            required:
            - size
            type: object
          status:
            description: HelloWorldStatus defines the observed state of HelloWorld
            properties:
              nodes:
                items:
                  type: string
                type: array
            required:
            - nodes
            type: object
        type: object
    served: true
    storage: true
    subresources:
      status: {}
"#;

/// The CRD that the old operator of this kind installed.
pub(crate) fn crd(kind: &Kind) -> CustomResourceDefinition {
    let text = match kind.kind {
        "Memcached" => MEMCACHED,
        "Nginx" => NGINX,
        "ElasticWeb" => ELASTIC_WEB,
        "HelloWorld" => HELLO_WORLD,
        other => panic!("the old operators had no {other}"),
    };
    serde_saphyr::from_str(text).expect("YAML")
}

/// Specs that the old CRD of this kind took, by the name of the object that has each; null
/// is an object without a spec.
pub(crate) fn specs(kind: &Kind) -> Vec<(&'static str, Value)> {
    let web = |port: i64, single: i64, total: i64| json!({"image": "nginx:1.17.1", "port": port, "singlePodsQPS": single, "totalQPS": total});
    let of_count = |field: &str| {
        vec![
            ("usual", json!({field: 3})),
            ("zero", json!({field: 0})),
            ("negative", json!({field: -5})),
            ("huge", json!({field: i32::MAX})),
            ("smallest", json!({field: i32::MIN})),
            ("without-spec", Value::Null),
        ]
    };
    match kind.kind {
        "Memcached" | "HelloWorld" => of_count("size"),
        "Nginx" => of_count("count"),
        _ => vec![
            ("usual", web(30003, 800, 2400)),
            (
                "no-total",
                json!({"image": "nginx", "port": 30004, "singlePodsQPS": 1}),
            ),
            ("no-pods", web(30005, 500, 0)),
            ("negative", web(-1, -2, -3)),
            ("divides-by-zero", web(0, 0, 100)),
            ("huge", web(65536, i64::from(i32::MAX), i64::from(i32::MAX))),
            (
                "no-image",
                json!({"image": "", "port": 30006, "singlePodsQPS": 1, "totalQPS": 1}),
            ),
            (
                "long-image",
                json!({"image": "i".repeat(5000), "port": 30007, "singlePodsQPS": 1}),
            ),
            ("without-spec", Value::Null),
        ],
    }
}
