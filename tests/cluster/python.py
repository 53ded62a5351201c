"""Reads, changes and replaces each resource in its original version, as programs with the Python client do."""

import json
import os

import yaml
from kubernetes import client, config

# Each sample of the new version, with the original version, and the field of the number in both.
SAMPLES = [
    ("cache_v1_memcached", "memcacheds", "v1alpha1", "size", ["replicas"]),
    ("proxy_v1_nginx", "nginxes", "v1alpha1", "count", ["replicas"]),
    ("test_v1_helloworld", "helloworlds", "v1alpha1", "size", ["replicas"]),
    ("elasticweb_v2_elasticweb", "elasticwebs", "v1", "totalQPS", ["capacity", "targetQPS"]),
]
NAMESPACE = os.environ["NAMESPACE"]


def replace(api, path, name, field, value):
    """Repeats it after a conflict, because the operator writes the status meanwhile."""
    for _ in range(20):
        body = api.get_namespaced_custom_object(*path, name)
        body["spec"][field] = value
        try:
            return api.replace_namespaced_custom_object(*path, name, body)
        except client.ApiException as error:
            if error.status != 409:
                raise
    raise AssertionError("only conflicts")


config.load_kube_config()
api = client.CustomObjectsApi()
for sample, plural, version, field, new_field in SAMPLES:
    with open(f"config/samples/{sample}.yaml", encoding="utf8") as file:
        created = yaml.safe_load(file)
    created["spec"]["imagePullSecrets"] = [{"name": "a"}, {"name": "b"}]
    created["spec"]["scheduling"] = {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"operator": "Exists"}]}
    name = created["metadata"]["name"]
    group, new_version = created["apiVersion"].split("/")
    new, original = [(group, it, NAMESPACE, plural) for it in (new_version, version)]
    before = api.create_namespaced_custom_object(*new, created)
    replace(api, original, name, field, 4)
    expected = before["spec"]
    number = expected
    for part in new_field[:-1]:
        number = number[part]
    number[new_field[-1]] = 4
    after = api.get_namespaced_custom_object(*new, name)
    assert after["spec"] == expected, f"{sample}: {after['spec']}, not {expected}"
    assert "annotations" not in after["metadata"], after["metadata"]
    try:
        replace(api, original, name, field, -1)
        raise AssertionError(f"{sample}: accepted")
    except client.ApiException as error:
        message = json.loads(error.body)["message"]
        assert error.status == 422 and f"spec.{field}: Invalid value: -1" in message, f"{error.status} {message}"
    api.delete_namespaced_custom_object(*new, name)
    print(f"{sample}: right")
