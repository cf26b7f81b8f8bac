//! Certificates of a test: somebody who vouches, for a server and for a client.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

/// Files with certificates and keys, in PEM.
#[derive(Clone, Debug)]
pub struct Certificates {
    /// Of whoever vouches for the others.
    pub ca: PathBuf,
    /// Of the server, for `localhost` and `127.0.0.1`.
    pub server: PathBuf,
    /// The server's key.
    pub server_key: PathBuf,
    /// Of a client, where the server wants one.
    pub client: PathBuf,
    /// The client's key.
    pub client_key: PathBuf,
}

impl Certificates {
    /// Writes new ones to a folder.
    pub fn write(folder: &Path) -> Certificates {
        let path = |name: &str| folder.join(name);
        let files = Certificates {
            ca: path("ca.pem"),
            server: path("server.pem"),
            server_key: path("server.key"),
            client: path("client.pem"),
            client_key: path("client.key"),
        };
        let write = |path: &Path, text: String| fs::write(path, text).expect("a file is written");
        let mut params = CertificateParams::new(Vec::new()).expect("no names, no bad names");
        params.distinguished_name.push(DnType::CommonName, "somebody who vouches");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, new_key()).expect("the CA signs itself");
        write(&files.ca, ca.pem());
        let pairs = [(&files.server, &files.server_key), (&files.client, &files.client_key)];
        for (certificate, file) in pairs {
            let names = ["localhost", "127.0.0.1"].map(str::to_owned);
            let (key, params) = (new_key(), CertificateParams::new(names).expect("good names"));
            let signed = params.signed_by(&key, &ca).expect("the CA signs");
            write(certificate, signed.pem());
            write(file, key.serialize_pem());
        }
        files
    }
}

fn new_key() -> KeyPair {
    KeyPair::generate().expect("a key is made")
}
