use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// A certificate and its key, in PEM.
pub struct Identity {
    pub certificate: String,
    pub certificate_der: Vec<u8>,
    pub key: String,
    pub key_der: Vec<u8>,
}

/// An authority that lives as long as a test run.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate, in PEM and DER.
    pub pem: String,
    pub der: Vec<u8>,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names are valid names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "signalbox test");
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        Self { pem: certificate.pem(), der: certificate.der().to_vec(), issuer: Issuer::new(params, key) }
    }

    /// A server on this machine.
    pub fn server(&self) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(["127.0.0.1".to_owned(), "localhost".to_owned()]).expect("valid names");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Identity {
            certificate: certificate.pem(),
            certificate_der: certificate.der().to_vec(),
            key: key.serialize_pem(),
            key_der: key.serialize_der(),
        }
    }
}

/// A key pair in PEM, private and public, for service account tokens.
pub fn signing_key() -> (String, String) {
    let key = KeyPair::generate().expect("a key");
    (key.serialize_pem(), key.public_key_pem())
}
