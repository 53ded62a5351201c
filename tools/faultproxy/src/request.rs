//! What a request refers to, parsed from its method and URL, and the pattern that selects requests.
//! The paths are those of the Kubernetes API concepts, "Resource URIs". Pure.

use http::{Method, Uri};

/// What a request refers to. Fields are empty if the URL does not have them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Target {
    /// The RBAC verb: get, list, watch, create, update, patch, delete, deletecollection.
    pub verb: &'static str,
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
        // Before the version, an API of a group has the group.
        let before = match parts.next() {
            Some("api") => 1,
            Some("apis") => 2,
            _ => usize::MAX,
        };
        let Some(mut resource) = parts.nth(before) else {
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

impl Match {
    /// Selects every request.
    pub fn all() -> Self {
        Match::default()
    }

    /// Selects requests with one of these verbs.
    pub fn verbs(verbs: &[&'static str]) -> Self {
        let verbs = verbs.to_vec();
        Match {
            verbs,
            ..Match::default()
        }
    }

    /// Selects requests that change stored objects.
    pub fn writes() -> Self {
        Match::verbs(&["create", "update", "patch", "delete"])
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

    /// Restricts it to the object of this name; for events, that of the event.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Reports whether it selects this request, or an event of the object `name`.
    pub(crate) fn holds(&self, target: &Target, name: &str) -> bool {
        (self.verbs.is_empty() || self.verbs.contains(&target.verb))
            && (self.resources.is_empty() || self.resources.contains(&target.resource))
            && self.name.as_ref().is_none_or(|wanted| wanted == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_say_what_a_request_is_about() {
        let (namespaced, deployments) = (
            "/api/v1/namespaces/a",
            "/apis/apps/v1/namespaces/a/deployments",
        );
        for (method, path, query, expected) in [
            (
                Method::PATCH,
                deployments,
                "/b?force=true",
                "patch deployments a b",
            ),
            (
                Method::PATCH,
                deployments,
                "/b/status",
                "patch deployments/status a b",
            ),
            (Method::POST, deployments, "", "create deployments a "),
            (Method::GET, "/api/v1", "/pods?limit=500", "list pods  "),
            (
                Method::GET,
                namespaced,
                "/services?watch=true",
                "watch services a ",
            ),
            (
                Method::GET,
                namespaced,
                "/pods?fieldSelector=metadata.name%3Db",
                "list pods a b",
            ),
            (
                Method::GET,
                namespaced,
                "/pods?watch=1&fieldSelector=metadata.name=b",
                "watch pods a b",
            ),
            (Method::GET, namespaced, "", "get namespaces  a"),
            (
                Method::PUT,
                namespaced,
                "/status",
                "update namespaces/status  a",
            ),
            (
                Method::DELETE,
                namespaced,
                "/services",
                "deletecollection services a ",
            ),
            (Method::GET, "/version", "", "get /version  "),
            (Method::GET, "/apis/apps/v1", "", "get /apis/apps/v1  "),
        ] {
            let uri: Uri = format!("{path}{query}").parse().unwrap();
            let Target {
                verb,
                resource,
                namespace,
                name,
            } = Target::of(&method, &uri);
            let read = format!("{verb} {resource} {namespace} {name}");
            assert_eq!(read, expected, "{uri}");
        }
    }
}
