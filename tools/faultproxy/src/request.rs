//! What a request refers to, parsed from its method and URL, and the pattern that selects requests.
//! The paths are those of the Kubernetes API concepts, "Resource URIs". Pure.

use http::{Method, Uri};

/// What a request refers to. Fields are empty if the URL does not have them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Target {
    /// The RBAC verb: get, list, watch, create, update, patch, delete, deletecollection.
    pub verb: &'static str,
    /// API group; empty for the core.
    pub group: String,
    /// Plural, and after a slash the subresource; for other URLs the path.
    pub resource: String,
    /// Namespace.
    pub namespace: String,
    /// Name; that of the field selector for a list or watch of one object, as in an authorization.
    pub name: String,
}

impl Target {
    /// Parses method and URI of a request.
    pub fn of(method: &Method, uri: &Uri) -> Self {
        let mut parts = uri.path().trim_matches('/').split('/');
        let group = match parts.next() {
            Some("api") => Some(""),
            Some("apis") => parts.next(),
            _ => None,
        };
        let (Some(group), Some(_version), Some(mut resource)) = (group, parts.next(), parts.next())
        else {
            return Target {
                verb: verb(method, uri, true),
                resource: uri.path().to_owned(),
                ..Target::default()
            };
        };
        let mut namespace = "";
        let mut name = parts.next().unwrap_or_default();
        let mut subresource = parts.next().unwrap_or_default();
        let namespaced =
            resource == "namespaces" && !matches!(subresource, "" | "status" | "finalize");
        if namespaced {
            (namespace, resource) = (name, subresource);
            name = parts.next().unwrap_or_default();
            subresource = parts.next().unwrap_or_default();
        }
        let slash = if subresource.is_empty() { "" } else { "/" };
        let verb = verb(method, uri, !name.is_empty());
        if matches!(verb, "list" | "watch") {
            name = selected_name(uri).unwrap_or_default();
        }
        Target {
            verb,
            group: group.to_owned(),
            resource: format!("{resource}{slash}{subresource}"),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// Reports whether it changes stored objects.
    pub fn is_write(&self) -> bool {
        !matches!(self.verb, "get" | "list" | "watch")
    }
}

/// The name in a field selector that selects nothing else.
fn selected_name(uri: &Uri) -> Option<&str> {
    let mut parameters = uri.query()?.split('&');
    let selector = parameters.find_map(|it| it.strip_prefix("fieldSelector=metadata.name"))?;
    selector
        .strip_prefix("%3D")
        .or_else(|| selector.strip_prefix('='))
}

fn verb(method: &Method, uri: &Uri, is_named: bool) -> &'static str {
    let query = uri.query().unwrap_or_default();
    let is_watch = query
        .split('&')
        .any(|it| matches!(it, "watch=true" | "watch=1" | "watch"));
    match *method {
        Method::GET if is_watch => "watch",
        Method::GET if is_named => "get",
        Method::GET => "list",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if is_named => "delete",
        Method::DELETE => "deletecollection",
        _ => "other",
    }
}

/// Selects the requests, or watches, of a rule.
#[derive(Debug, Clone, Default)]
pub struct Match {
    verbs: Vec<&'static str>,
    resources: Vec<String>,
    name: Option<String>,
}

/// The verbs that change stored objects.
const WRITES: [&str; 4] = ["create", "update", "patch", "delete"];

impl Match {
    /// Selects every request.
    pub fn all() -> Self {
        Match::default()
    }

    /// Selects requests with one of these verbs.
    pub fn verbs(verbs: &[&'static str]) -> Self {
        Match {
            verbs: verbs.to_vec(),
            ..Match::default()
        }
    }

    /// Selects requests that change stored objects.
    pub fn writes() -> Self {
        Match::verbs(&WRITES)
    }

    /// Selects watches.
    pub fn watches() -> Self {
        Match::verbs(&["watch"])
    }

    /// Restricts it to this resource, e.g. `deployments` or `memcacheds/status`. Repeated calls add
    /// resources.
    #[must_use]
    pub fn of(mut self, resource: &str) -> Self {
        self.resources.push(resource.to_owned());
        self
    }

    /// Restricts it to the object of this name. In an [`crate::EventRule`], the object of the
    /// event.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Reports whether it selects this request.
    pub fn holds(&self, target: &Target) -> bool {
        self.holds_but_for_the_name(target) && self.holds_for_the_name(&target.name)
    }

    pub(crate) fn holds_but_for_the_name(&self, target: &Target) -> bool {
        (self.verbs.is_empty() || self.verbs.contains(&target.verb))
            && (self.resources.is_empty() || self.resources.contains(&target.resource))
    }

    pub(crate) fn holds_for_the_name(&self, name: &str) -> bool {
        self.name.as_ref().is_none_or(|wanted| wanted == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(method: Method, uri: &'static str) -> Target {
        Target::of(&method, &Uri::from_static(uri))
    }

    fn read(target: &Target) -> [&str; 5] {
        let Target {
            verb,
            group,
            resource,
            namespace,
            name,
        } = target;
        [verb, group, resource, namespace, name]
    }

    #[test]
    fn urls_say_what_a_request_is_about() {
        for (method, uri, expected) in [
            (
                Method::PATCH,
                "/apis/apps/v1/namespaces/a/deployments/b?force=true",
                ["patch", "apps", "deployments", "a", "b"],
            ),
            (
                Method::PATCH,
                "/apis/cache.example.com/v1/namespaces/a/memcacheds/b/status",
                ["patch", "cache.example.com", "memcacheds/status", "a", "b"],
            ),
            (
                Method::GET,
                "/api/v1/pods?limit=500",
                ["list", "", "pods", "", ""],
            ),
            (
                Method::GET,
                "/api/v1/namespaces/a/services?resourceVersion=1&watch=true",
                ["watch", "", "services", "a", ""],
            ),
            (
                Method::GET,
                "/api/v1/namespaces/a/services?fieldSelector=metadata.name%3Db&limit=1",
                ["list", "", "services", "a", "b"],
            ),
            (
                Method::GET,
                "/api/v1/namespaces/a/services?watch=true&fieldSelector=metadata.name=b",
                ["watch", "", "services", "a", "b"],
            ),
            (
                Method::GET,
                "/api/v1/namespaces/a",
                ["get", "", "namespaces", "", "a"],
            ),
            (
                Method::PUT,
                "/api/v1/namespaces/a/status",
                ["update", "", "namespaces/status", "", "a"],
            ),
            (
                Method::DELETE,
                "/api/v1/namespaces/a/services/b",
                ["delete", "", "services", "a", "b"],
            ),
            (
                Method::DELETE,
                "/api/v1/namespaces/a/services",
                ["deletecollection", "", "services", "a", ""],
            ),
            (
                Method::POST,
                "/apis/apps/v1/namespaces/a/deployments",
                ["create", "apps", "deployments", "a", ""],
            ),
            (Method::GET, "/version", ["get", "", "/version", "", ""]),
            (
                Method::GET,
                "/apis/apps/v1",
                ["get", "", "/apis/apps/v1", "", ""],
            ),
        ] {
            assert_eq!(read(&target(method, uri)), expected, "{uri}");
        }
    }

    #[test]
    fn a_match_without_words_holds_for_all_and_each_word_narrows_it() {
        let apply = target(Method::PATCH, "/apis/apps/v1/namespaces/a/deployments/b");
        let list = target(Method::GET, "/apis/apps/v1/deployments");
        assert!(Match::all().holds(&apply) && Match::all().holds(&list));
        assert!(Match::writes().holds(&apply) && !Match::writes().holds(&list));
        let both = Match::writes().of("services").of("deployments");
        assert!(both.holds(&apply) && both.clone().named("b").holds(&apply));
        assert!(!both.named("c").holds(&apply) && !Match::all().of("pods").holds(&apply));
    }
}
