//! Test certificates: a CA, a server and a client.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

/// PEM files of certificates and keys.
#[derive(Clone, Debug)]
pub struct Certificates {
    /// The certificate of the CA.
    pub ca: PathBuf,
    /// The certificate of the server, for `localhost` and `127.0.0.1`.
    pub server: PathBuf,
    /// The private key of the server.
    pub server_key: PathBuf,
    /// The certificate of a client.
    pub client: PathBuf,
    /// The private key of the client.
    pub client_key: PathBuf,
}

impl Certificates {
    /// Writes new certificates to a folder.
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
        params.distinguished_name.push(DnType::CommonName, "tollgate test CA");
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
