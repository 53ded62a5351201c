//! Numbers that are absent, zero, negative or huge, and the replicas that come of them.

use super::*;

#[test]
fn fault_01_an_absent_number_is_a_condition_and_not_a_panic() {
    let empty = json!({ "image": "a", "capacity": {}, "service": {} });
    for absent in [json!({}), json!(null), empty] {
        let resource = resource(&ElasticWeb, absent);
        let refused = desired(&ElasticWeb, &resource).expect_err("is refused");
        assert_eq!(refused.reason, Reason::InvalidSpec);
        let status = status(&ElasticWeb, &resource, &Observed::default());
        assert_eq!(told(&status, "Degraded"), ("True", "InvalidSpec"));
    }
}

#[test]
fn fault_02_zero_queries_per_pod_is_refused_and_not_divided_by() {
    for per_pod in [0, -1] {
        let refused = refused_as(&ElasticWeb, elastic_web(json!(800), per_pod));
        assert_eq!(refused, Reason::InvalidSpec);
    }
}

#[test]
fn fault_03_int32_overflow_in_real_qps_and_in_rounding_up() {
    let per_pod = i32::MAX;
    let resource = resource(&ElasticWeb, elastic_web(json!(i32::MAX), per_pod.into()));
    assert_eq!(deployment(&ElasticWeb, &resource)["spec"]["replicas"], 1);
    let status = status(&ElasticWeb, &resource, &at_rest(1000));
    assert_eq!(status.real_qps, Some(i64::from(per_pod) * 1000));
}

#[test]
fn fault_04_derived_replicas_are_capped() {
    let resource = resource(&ElasticWeb, elastic_web(json!(i32::MAX), 1));
    let status = status(&ElasticWeb, &resource, &Observed::default());
    assert_eq!(told(&status, "Degraded"), ("True", "ReplicasOverLimit"));
    let expected = "the spec asks for 2147483647 pods, over the limit of 1000 (--max-replicas)";
    assert_eq!(condition(&status, "Degraded").message, expected);
}

#[test]
fn fault_05_a_total_of_zero_leaves_no_pods_running_and_is_told() {
    for total in [json!(0), json!(null)] {
        let resource = resource(&ElasticWeb, elastic_web_spoke(total));
        assert_eq!(deployment(&ElasticWeb, &resource)["spec"]["replicas"], 0);
        let found = &service(&ElasticWeb, &resource)["spec"]["ports"][0]["nodePort"];
        assert_eq!(*found, 30003);
        let status = status(&ElasticWeb, &resource, &at_rest(0));
        assert_eq!(told(&status, "Ready"), ("True", "RolloutComplete"));
        assert_eq!(status.real_qps, Some(0));
    }
}

#[test]
fn fault_23_and_37_absent_replicas_are_one() {
    for operator in [&Memcached as &dyn Operator, &Nginx, &HelloWorld] {
        assert_eq!(replicas(operator, json!({})), 1);
        let status = status(operator, &resource(operator, json!({})), &at_rest(1));
        assert_eq!(told(&status, "Ready").0, "True");
    }
}

#[test]
fn fault_40_a_resource_can_be_scaled_to_zero() {
    for operator in [&Memcached as &dyn Operator, &Nginx, &HelloWorld] {
        assert_eq!(replicas(operator, json!({ "replicas": 0 })), 0);
        let resource = resource(operator, json!({ "replicas": 0 }));
        let status = status(operator, &resource, &at_rest(0));
        assert_eq!(told(&status, "Ready"), ("True", "RolloutComplete"));
        assert_eq!(told(&status, "Available").0, "True");
        assert_eq!((status.replicas, status.nodes.len()), (Some(0), 0));
    }
}

#[test]
fn fault_45_negative_and_huge_sizes_never_reach_a_deployment() {
    for operator in [&Memcached as &dyn Operator, &Nginx, &HelloWorld] {
        for (replicas, reason) in [
            (-1, Reason::InvalidSpec),
            (1_i64 << 40, Reason::InvalidSpec),
            (1001, Reason::ReplicasOverLimit),
        ] {
            let refused = refused_as(operator, json!({ "replicas": replicas }));
            assert_eq!(refused, reason);
        }
    }
    let refused = refused_as(&ElasticWeb, elastic_web(json!(-1), 1));
    assert_eq!(refused, Reason::InvalidSpec);
}
