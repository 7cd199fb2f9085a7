//! The demo server: one port a protocol and dress, on the loopback address, with users, keys and a
//! certificate that are made at its start and known to nobody else.

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use culvert_net::dial::Dialer;
use culvert_net::outbound::vision;
use culvert_net::random::SystemRandom;
use culvert_net::reality_server::RealityServer;
use culvert_net::server::{Upstream, shadowsocks, trojan, vless, vmess};
use culvert_net::stream::BoxStream;
use culvert_net::transport::{tls, websocket};
use culvert_profile::{Node, export};
use culvert_wire::random::Random;
use culvert_wire::reality::ServerOptions;
use culvert_wire::shadowsocks::Method;
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::net::DemoServer;

const NAME: &str = "demo.culvert.invalid";
const WEBSOCKET_PATH: &str = "/demo";
/// What strangers of the REALITY port are shown.
const SITE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 16\r\n\
    Connection: close\r\n\r\nNothing is here.";

/// The running server; ends when dropped.
pub struct Demo {
    links: Vec<String>,
    listeners: Vec<tokio::task::JoinHandle<()>>,
}

impl Drop for Demo {
    fn drop(&mut self) {
        for listener in &self.listeners {
            listener.abort();
        }
    }
}

impl DemoServer for Demo {
    fn links(&self) -> Vec<String> {
        self.links.clone()
    }
}

/// What lies between the socket and the protocol.
#[derive(Clone, Copy)]
enum Dress {
    Tcp,
    Tls,
    WebSocket,
    WebSocketTls,
}

impl Dress {
    fn is_tls(self) -> bool {
        matches!(self, Self::Tls | Self::WebSocketTls)
    }

    fn is_websocket(self) -> bool {
        matches!(self, Self::WebSocket | Self::WebSocketTls)
    }

    fn words(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Tls => "TLS",
            Self::WebSocket => "WebSocket",
            Self::WebSocketTls => "WebSocket, TLS",
        }
    }
}

type Serving = Pin<Box<dyn Future<Output = ()> + Send>>;
type Serve = Arc<dyn Fn(BoxStream) -> Serving + Send + Sync>;

/// The certificate that all TLS ports share.
struct Certificate {
    acceptor: tls::Acceptor,
    sha256: String,
}

impl Demo {
    /// Starts on free ports. Connections are served on the runtime that calls.
    ///
    /// # Errors
    /// When no port can be opened, or the system gives no random bytes.
    pub async fn start() -> io::Result<Self> {
        let user = Uuid::new_v4();
        let password = secret();
        let certificate = Certificate::new()?;
        let mut demo = Self { links: Vec::new(), listeners: Vec::new() };

        let server = Arc::new(vmess::Server::new(&[user.into_bytes()], Upstream::direct()));
        let serve = serving(move |stream| {
            let server = Arc::clone(&server);
            async move { server.serve(stream).await.map_err(|error| error.to_string()) }
        });
        let fields = serde_json::json!({ "protocol": "vmess", "uuid": user, "encryption": "auto" });
        for dress in [Dress::Tcp, Dress::Tls, Dress::WebSocket, Dress::WebSocketTls] {
            demo.listen("VMess", fields.clone(), dress, &serve, &certificate).await?;
        }

        let server = Arc::new(vless::Server::new(&[user.into_bytes()], Upstream::direct()));
        let serve = serving(move |stream| {
            let server = Arc::clone(&server);
            async move { server.serve(stream).await.map_err(|error| error.to_string()) }
        });
        let fields = serde_json::json!({ "protocol": "vless", "uuid": user, "encryption": "none" });
        for dress in [Dress::Tcp, Dress::Tls, Dress::WebSocketTls] {
            demo.listen("VLESS", fields.clone(), dress, &serve, &certificate).await?;
        }

        demo.reality(user, &certificate).await?;

        let server = Arc::new(trojan::Server::new(&[&password], Upstream::direct()));
        let serve = serving(move |stream| {
            let server = Arc::clone(&server);
            async move { server.serve(stream).await.map_err(|error| error.to_string()) }
        });
        let fields = serde_json::json!({ "protocol": "trojan", "password": password });
        demo.listen("Trojan", fields, Dress::Tls, &serve, &certificate).await?;

        for method in ["aes-128-gcm", "chacha20-ietf-poly1305", "2022-blake3-aes-128-gcm"] {
            demo.shadowsocks(method, &certificate).await?;
        }
        Ok(demo)
    }

    async fn shadowsocks(&mut self, method: &str, certificate: &Certificate) -> io::Result<()> {
        let password = if method.starts_with("2022-") {
            data_encoding::BASE64.encode(&SystemRandom.array::<16>())
        } else {
            secret()
        };
        let known = Method::parse(method).ok_or_else(|| io::Error::other("an unknown cipher"))?;
        let server = shadowsocks::Server::new(known, &password, &[], Upstream::direct()).map_err(io::Error::other)?;
        let server = Arc::new(server);
        let serve = serving(move |stream| {
            let server = Arc::clone(&server);
            async move { server.serve(stream).await.map_err(|error| error.to_string()) }
        });
        let fields = serde_json::json!({ "protocol": "shadowsocks", "method": method, "password": password });
        self.listen("Shadowsocks", fields, Dress::Tcp, &serve, certificate).await
    }

    /// VLESS with REALITY and Vision, in front of a site of our own.
    async fn reality(&mut self, user: Uuid, certificate: &Certificate) -> io::Result<()> {
        let site = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let site_address = site.local_addr()?;
        let show: Serve = serving(|mut stream: BoxStream| async move {
            let mut request = [0; 4096];
            let shown = async {
                let _count = stream.read(&mut request).await?;
                stream.write_all(SITE).await?;
                stream.shutdown().await
            };
            shown.await.map_err(|error: io::Error| error.to_string())
        });
        self.spawn(site, Some(certificate.acceptor.clone()), false, show);

        let (private_key, short_id) = (SystemRandom.array::<32>(), SystemRandom.array::<8>());
        let options = ServerOptions::new(private_key, vec![short_id], vec![NAME.to_owned()], [0; 3]);
        let public_key = options.public_key().map_err(io::Error::other)?;
        let server = RealityServer::new(options, vec![user.into_bytes()], site_address, Dialer::default());
        let server = Arc::new(server);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        self.add_link(serde_json::json!({
            "protocol": "vless", "name": "Demo VLESS (REALITY, Vision)",
            "address": address.ip().to_string(), "port": address.port(),
            "uuid": user, "encryption": "none", "flow": vision::FLOW,
            "tls": { "enabled": true, "sni": NAME, "fingerprint": "chrome", "reality": {
                "public_key": data_encoding::BASE64URL_NOPAD.encode(&public_key),
                "short_id": data_encoding::HEXLOWER.encode(&short_id),
            }},
        }))?;
        self.listeners.push(tokio::spawn(accept(listener, move |stream| {
            let server = Arc::clone(&server);
            async move { server.serve(stream, Arc::default()).await.map_err(|error| error.to_string()) }
        })));
        Ok(())
    }

    fn add_link(&mut self, fields: serde_json::Value) -> io::Result<()> {
        let node: Node = serde_json::from_value(fields).map_err(io::Error::other)?;
        self.links.push(export::link(&node));
        Ok(())
    }

    fn spawn(&mut self, listener: TcpListener, acceptor: Option<tls::Acceptor>, websocket: bool, serve: Serve) {
        self.listeners.push(tokio::spawn(accept(listener, move |stream| {
            let (acceptor, serve) = (acceptor.clone(), Arc::clone(&serve));
            async move {
                let dressed = dress(Box::new(stream), acceptor, websocket);
                match tokio::time::timeout(std::time::Duration::from_secs(10), dressed).await {
                    Ok(Ok(stream)) => {
                        serve(stream).await;
                        Ok(())
                    }
                    Ok(Err(error)) => Err(error.to_string()),
                    Err(_) => Err("a client did not finish its handshake".to_owned()),
                }
            }
        })));
    }

    /// Opens a port that serves `serve` in this dress, and adds its link.
    async fn listen(
        &mut self,
        protocol: &str,
        mut fields: serde_json::Value,
        dress: Dress,
        serve: &Serve,
        certificate: &Certificate,
    ) -> io::Result<()> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address: SocketAddr = listener.local_addr()?;
        let kind = fields.get("method").and_then(|method| method.as_str()).unwrap_or_else(|| dress.words());
        fields["name"] = format!("Demo {protocol} ({kind})").into();
        fields["address"] = address.ip().to_string().into();
        fields["port"] = address.port().into();
        if dress.is_tls() {
            fields["tls"] = serde_json::json!({ "enabled": true, "sni": NAME, "pin_sha256": certificate.sha256 });
        }
        if dress.is_websocket() {
            fields["transport"] = serde_json::json!({ "type": "ws", "path": WEBSOCKET_PATH, "host": NAME });
        }
        self.add_link(fields)?;
        let acceptor = dress.is_tls().then(|| certificate.acceptor.clone());
        self.spawn(listener, acceptor, dress.is_websocket(), Arc::clone(serve));
        Ok(())
    }
}

fn serving<F, S>(serve: F) -> Serve
where
    F: Fn(BoxStream) -> S + Send + Sync + 'static,
    S: Future<Output = Result<(), String>> + Send + 'static,
{
    Arc::new(move |stream| {
        let served = serve(stream);
        Box::pin(async move {
            if let Err(error) = served.await {
                tracing::debug!("the demo server: {error}");
            }
        })
    })
}

async fn accept<F, S>(listener: TcpListener, serve: F)
where
    F: Fn(TcpStream) -> S + Send + 'static,
    S: Future<Output = Result<(), String>> + Send + 'static,
{
    // Connections end with their listener.
    let mut connections = JoinSet::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(_) => {
                // Out of descriptors, most likely: wait for some to come back.
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let served = serve(stream);
        connections.spawn(async move {
            if let Err(error) = served.await {
                tracing::debug!("the demo server: {error}");
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn dress(mut stream: BoxStream, acceptor: Option<tls::Acceptor>, websocket: bool) -> io::Result<BoxStream> {
    if let Some(acceptor) = acceptor {
        stream = acceptor.accept(stream).await?;
    }
    if websocket {
        stream = websocket::accept(stream, WEBSOCKET_PATH).await?;
    }
    Ok(stream)
}

impl Certificate {
    fn new() -> io::Result<Self> {
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let parameters = CertificateParams::new(vec![NAME.to_owned()]).map_err(io::Error::other)?;
        let certificate = parameters.self_signed(&key).map_err(io::Error::other)?;
        let sha256 = data_encoding::HEXLOWER.encode(&Sha256::digest(certificate.der()));
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let acceptor =
            tls::Acceptor::new(vec![certificate.der().clone()], key, &["http/1.1"]).map_err(io::Error::other)?;
        Ok(Self { acceptor, sha256 })
    }
}

fn secret() -> String {
    data_encoding::HEXLOWER.encode(&SystemRandom.array::<16>())
}
