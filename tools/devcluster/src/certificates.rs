//! The cluster's certificate authority, the API server's serving certificate and its client
//! certificate at a kubelet, and the key that signs ServiceAccount tokens.
//!
//! All keys are ECDSA P-256 and valid as long as their state folder exists.

use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};

use crate::error::{Result, create_folder, write};

/// The API server as a client of a kubelet, and of aggregated API servers.
const KUBELET_CLIENT: &str = "kube-apiserver-kubelet-client";

/// Creates all of them in `folder`, each as `NAME.crt` and `NAME.key`; the client certificate if
/// `has_kubelet`.
pub(crate) fn create(folder: &Path, server_names: Vec<String>, has_kubelet: bool) -> Result<()> {
    create_folder(folder)?;
    let mut authority = parameters("devcluster", Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate()?;
    write_pair(folder, "ca", &authority.self_signed(&key)?.pem(), &key)?;
    let issuer = Issuer::new(authority, key);

    let issue = |name: &str, mut it: CertificateParams, usage| {
        it.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        it.extended_key_usages = vec![usage];
        let key = KeyPair::generate()?;
        write_pair(folder, name, &it.signed_by(&key, &issuer)?.pem(), &key)
    };
    let server = parameters("kube-apiserver", server_names)?;
    issue("server", server, ExtendedKeyUsagePurpose::ServerAuth)?;
    if has_kubelet {
        let mut client = parameters(KUBELET_CLIENT, Vec::new())?;
        let group = DnType::OrganizationName;
        client.distinguished_name.push(group, "system:masters");
        issue(KUBELET_CLIENT, client, ExtendedKeyUsagePurpose::ClientAuth)?;
    }

    let tokens = KeyPair::generate()?;
    let (key, public) = (tokens.serialize_pem(), tokens.public_key_pem());
    write(&folder.join("service-accounts.key"), key)?;
    write(&folder.join("service-accounts.pub"), public)
}

fn parameters(common_name: &str, names: Vec<String>) -> Result<CertificateParams> {
    let mut parameters = CertificateParams::new(names)?;
    parameters.distinguished_name = DistinguishedName::new();
    parameters
        .distinguished_name
        .push(DnType::CommonName, common_name);
    Ok(parameters)
}

fn write_pair(folder: &Path, name: &str, certificate: &str, key: &KeyPair) -> Result<()> {
    write(&folder.join(format!("{name}.crt")), certificate)?;
    write(&folder.join(format!("{name}.key")), key.serialize_pem())
}
