//! The cluster's certificate authority, the API server's serving certificate and its client
//! certificate at a kubelet, and the key that signs ServiceAccount tokens.
//!
//! All keys are ECDSA P-256 and valid as long as their state folder exists.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};

use crate::error::{Doing, Result, write};

/// The folder with the certificates and keys, by name: `NAME.crt`, `NAME.key`.
#[derive(Debug, Clone)]
pub(crate) struct Certificates {
    folder: PathBuf,
}

impl Certificates {
    /// Creates all of them in `folder`; `client` is the common name of the API server at a kubelet.
    pub(crate) fn create(
        folder: &Path,
        server_names: &[&str],
        client: Option<&str>,
    ) -> Result<Self> {
        fs::create_dir_all(folder).doing(|| format!("creating {}", folder.display()))?;
        let certificates = Self {
            folder: folder.to_owned(),
        };

        let mut authority = CertificateParams::new(Vec::new())?;
        authority.distinguished_name = name("devcluster");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        certificates.write("ca", &authority.self_signed(&key)?.pem(), &key)?;
        let issuer = Issuer::new(authority, key);

        let names: Vec<String> = server_names.iter().map(|&name| name.to_owned()).collect();
        let mut server = CertificateParams::new(names)?;
        server.distinguished_name = name("kube-apiserver");
        certificates.issue(
            "server",
            server,
            ExtendedKeyUsagePurpose::ServerAuth,
            &issuer,
        )?;

        if let Some(common_name) = client {
            let mut client = CertificateParams::new(Vec::new())?;
            client.distinguished_name = name(common_name);
            client
                .distinguished_name
                .push(DnType::OrganizationName, "system:masters");
            let purpose = ExtendedKeyUsagePurpose::ClientAuth;
            certificates.issue(common_name, client, purpose, &issuer)?;
        }

        let tokens = KeyPair::generate()?;
        write(&certificates.service_account_key(), tokens.serialize_pem())?;
        write(
            &certificates.service_account_public_key(),
            tokens.public_key_pem(),
        )?;
        Ok(certificates)
    }

    pub(crate) fn authority(&self) -> PathBuf {
        self.certificate("ca")
    }

    pub(crate) fn certificate(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.crt"))
    }

    pub(crate) fn key(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.key"))
    }

    pub(crate) fn service_account_key(&self) -> PathBuf {
        self.key("service-accounts")
    }

    pub(crate) fn service_account_public_key(&self) -> PathBuf {
        self.folder.join("service-accounts.pub")
    }

    fn issue(
        &self,
        file: &str,
        mut parameters: CertificateParams,
        purpose: ExtendedKeyUsagePurpose,
        issuer: &Issuer<'_, KeyPair>,
    ) -> Result<()> {
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = vec![purpose];
        let key = KeyPair::generate()?;
        let certificate = parameters.signed_by(&key, issuer)?;
        self.write(file, &certificate.pem(), &key)
    }

    fn write(&self, name: &str, certificate: &str, key: &KeyPair) -> Result<()> {
        write(&self.certificate(name), certificate)?;
        write(&self.key(name), key.serialize_pem())
    }
}

fn name(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}
