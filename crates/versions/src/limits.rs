//! Bounds of numbers and texts in the API. Used by the attributes of fields and the schemas.

/// Largest integer that a JSON reader with 64-bit floats represents exactly, 2^53 − 1. The
/// Kubernetes API conventions ask for this limit.
pub const INT64_MAX: i64 = (1 << 53) - 1;

/// Printable ASCII without the space: image references.
pub const VISIBLE: &str = "^[!-~]*$";
/// Values of labels.
pub const LABEL: &str = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
/// Keys of labels and taints; or empty.
pub const QUALIFIED_NAME: &str = r"^(([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9])?$";
/// Names of objects: DNS subdomains; or empty.
pub const NAME: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$";

/// Longest image reference.
pub const IMAGE_MAX: u16 = 512;
/// Longest DNS subdomain (RFC 1123), the limit for names of most objects.
pub const NAME_MAX: u16 = 253;
/// Longest DNS label: label values and names of Services.
pub const LABEL_MAX: u16 = 63;
/// Longest qualified name: an optional DNS subdomain, `/`, and a label.
pub const QUALIFIED_NAME_MAX: u16 = NAME_MAX + 1 + LABEL_MAX;

/// The grammar of apimachinery's `resource.Quantity`, without a sign: neither requests nor limits may be
/// negative.
pub const QUANTITY: &str =
    r"^(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]{1,2}))?$";
/// Longest text of a quantity.
pub const QUANTITY_MAX: u16 = 32;

#[cfg(test)]
mod tests;
