//! Patterns and lengths of texts in the API. Used by the attributes of fields, the schemas and the
//! validation.

/// Printable ASCII without the space: image references.
pub(super) const VISIBLE: &str = "^[!-~]*$";
/// Label keys and values, taint keys, names.
pub(super) const LABEL: &str = r"^[A-Za-z0-9\-./_]*$";
/// Names of objects: DNS subdomains.
pub(super) const NAME: &str = r"^[a-z0-9\-.]*$";

/// Longest image reference.
pub const IMAGE_MAX: u16 = 512;
/// Longest DNS subdomain (RFC 1123), the limit for names of most objects.
pub(super) const NAME_MAX: u16 = 253;
/// Longest DNS label: label values and names of Services.
pub(super) const LABEL_MAX: u16 = 63;
/// Longest qualified name: an optional DNS subdomain, `/`, and a label.
pub(super) const QUALIFIED_NAME_MAX: u16 = NAME_MAX + 1 + LABEL_MAX;
