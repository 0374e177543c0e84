//! TLS for the programs in run pods, which work in any image, an empty one too.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::CertificateDer};

/// A client's TLS settings that need nothing of the process or the image: the roots are those of `SSL_CERT_FILE` and
/// `SSL_CERT_DIR` where set, else the image's own, else Mozilla's, which are built in.
///
/// # Errors
/// The cryptography library offers no protocol version: never, in the builds of this workspace.
pub fn client_config() -> Result<ClientConfig, rustls::Error> {
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots(rustls_native_certs::load_native_certs().certs))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn roots(found: Vec<CertificateDer<'static>>) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found);
    if roots.is_empty() {
        roots.add_parsable_certificates(webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().cloned());
    }
    roots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_without_certificates_gets_those_built_in() {
        assert!(roots(vec![]).len() > 50);
        assert!(roots(vec![CertificateDer::from(vec![1, 2, 3])]).len() > 50);
    }

    #[test]
    fn certificates_of_the_image_are_not_mixed_with_those_built_in() {
        let own = rcgen::generate_simple_self_signed(vec!["x".to_owned()]).unwrap();
        assert_eq!(roots(vec![own.cert.der().clone()]).len(), 1);
    }
}
