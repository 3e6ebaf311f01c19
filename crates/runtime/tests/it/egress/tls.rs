//! The name of the server in a real first message of TLS.

use std::io::{Read, Write};
use std::sync::Arc;

use machine::policy::hosts::{Decision, Manner};
use runtime::egress::Limits;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme};

use super::rig::{Rig, Server, read_some, tunnel};
use crate::read_once;

/// Nothing is verified here: no connection gets that far.
#[derive(Debug)]
struct Whoever;

impl ServerCertVerifier for Whoever {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Err(Error::General("not reached".to_owned()))
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("not reached".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("not reached".to_owned()))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519, SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}

/// What a real client sends first to this server; an address is not named.
fn hello(server: &str) -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Whoever))
        .with_no_client_auth();
    let name = ServerName::try_from(server.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

/// Sends bytes through a tunnel, in pieces, and says whether they came back.
fn passes(rig: &Rig, server: &Server, bytes: &[u8], piece: usize) -> bool {
    let mut stream = tunnel(rig, &format!("a.example:{}", server.port));
    for part in bytes.chunks(piece) {
        // A tunnel that is refused ends while it is still written to.
        if stream.write_all(part).is_err() {
            break;
        }
    }
    let mut first = [0];
    match read_once(&mut stream, &mut first) {
        Ok(1) if first[0] == 22 => {
            assert_eq!(read_some(&mut stream, bytes.len() - 1), bytes[1..]);
            true
        }
        _ => false,
    }
}

#[test]
fn tls_asks_for_the_server_that_the_tunnel_was_asked_for() {
    let server = Server::echoing();
    let list = [format!("private:a.example:{}", server.port)];
    for manner in [(|_| Manner::Tls) as fn(u16) -> Manner, Manner::of] {
        let rig = Rig::with(&list, Limits::default(), manner);
        for piece in [1, 7, 5000] {
            assert!(passes(&rig, &server, &hello("a.example"), piece), "{piece}");
        }
        server.heard.lock().unwrap().clear();
        assert!(!passes(&rig, &server, &hello("b.example"), 5000));
        assert!(!passes(&rig, &server, &hello("127.0.0.1"), 5000));
        let mut broken = hello("a.example");
        broken[9] ^= 0xff;
        broken[43] = 0xff;
        assert!(!passes(&rig, &server, &broken, 5000));
        // Not a byte of these went out.
        assert_eq!(server.heard(), "");
        let told = rig.told(9);
        assert_eq!(told.iter().filter(|line| line.0 == Decision::Refused).count(), 3);
        let reasons = rig.reasons(9).join("\n");
        assert!(reasons.contains("TLS asks for the server \"b.example\""), "{reasons}");
        assert!(reasons.contains("does not say which server"), "{reasons}");
    }
}

#[test]
fn where_tls_is_expected_nothing_else_passes() {
    let server = Server::echoing();
    let list = [format!("private:a.example:{}", server.port)];
    let limits = Limits { head: std::time::Duration::from_secs(2), ..Limits::default() };
    let rig = Rig::with(&list, limits, |_| Manner::Tls);
    for bytes in [
        &b"GET / HTTP/1.1\r\nHost: b.example\r\n\r\n"[..],
        b"SSH-2.0-x\r\n",
        &hello("a.example")[..50],
    ] {
        assert!(!passes(&rig, &server, bytes, 5000));
    }
    assert_eq!(server.heard(), "");
}

#[test]
fn a_server_that_speaks_first_is_heard() {
    let server = Server::new(|mut stream, _| {
        stream.write_all(b"220 welcome\r\n").unwrap();
        let mut word = [0; 4];
        stream.read_exact(&mut word).unwrap();
        stream.write_all(&word).unwrap();
    });
    let rig = Rig::new(&[format!("private:a.example:{}", server.port)]);
    let mut stream = tunnel(&rig, &format!("a.example:{}", server.port));
    assert_eq!(read_some(&mut stream, 13), b"220 welcome\r\n");
    stream.write_all(b"QUIT").unwrap();
    assert_eq!(read_some(&mut stream, 4), b"QUIT");
}
