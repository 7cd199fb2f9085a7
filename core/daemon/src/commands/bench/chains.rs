//! What is compared: for each protocol a real peer's server, the same peer's client, and ours.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::process::find;

const USER: &str = "2f9a3b0e-6a4e-4b53-9c5c-7e1f0a3d8b61";

/// One row of the comparison.
pub(super) struct Chain {
    pub(super) name: String,
    kind: Kind,
}

enum Kind {
    /// No server: the client reaches the target itself.
    Direct,
    V2ray {
        protocol: &'static str,
        security: &'static str,
    },
    Libev {
        method: &'static str,
    },
    Rust {
        method: &'static str,
        key_length: usize,
    },
}

/// Whose client stands in front.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Ours,
    Peer,
}

/// Every row.
pub(super) fn all() -> Vec<Chain> {
    let mut chains = vec![Chain { name: "direct".into(), kind: Kind::Direct }];
    for security in ["none", "zero", "aes-128-gcm", "chacha20-poly1305"] {
        chains.push(Chain { name: format!("vmess {security}"), kind: Kind::V2ray { protocol: "vmess", security } });
    }
    chains.push(Chain { name: "vless".into(), kind: Kind::V2ray { protocol: "vless", security: "none" } });
    for method in ["aes-128-gcm", "aes-256-gcm", "chacha20-ietf-poly1305"] {
        chains.push(Chain { name: format!("ss-libev {method}"), kind: Kind::Libev { method } });
    }
    for (method, key_length) in [
        ("aes-128-gcm", 0),
        ("2022-blake3-aes-128-gcm", 16),
        ("2022-blake3-aes-256-gcm", 32),
        ("2022-blake3-chacha20-poly1305", 32),
    ] {
        chains.push(Chain { name: format!("ss-rust {method}"), kind: Kind::Rust { method, key_length } });
    }
    chains
}

impl Chain {
    /// The peer that serves this row.
    pub(super) fn peer(&self) -> &'static str {
        match self.kind {
            Kind::Direct | Kind::V2ray { .. } => "v2ray",
            Kind::Libev { .. } => "shadowsocks-libev",
            Kind::Rust { .. } => "shadowsocks-rust",
        }
    }

    /// What is missing to run this row, if anything is.
    pub(super) fn missing(&self) -> Option<&'static str> {
        let needed: &[(&'static str, &str)] = match self.kind {
            Kind::Direct | Kind::V2ray { .. } => &[("v2ray", "CULVERT_PEER_V2RAY")],
            Kind::Libev { .. } => &[("ss-server", "CULVERT_PEER_SS_SERVER"), ("ss-local", "CULVERT_PEER_SS_LOCAL")],
            Kind::Rust { .. } => &[("ssserver", "CULVERT_PEER_SSSERVER"), ("sslocal", "CULVERT_PEER_SSLOCAL")],
        };
        needed.iter().find(|(name, variable)| find(name, variable).is_none()).map(|(name, _)| *name)
    }

    fn password(&self) -> String {
        match self.kind {
            Kind::Rust { key_length, .. } if key_length > 0 => STANDARD.encode(&[7u8; 32][..key_length]),
            Kind::Rust { .. } | Kind::Libev { .. } | Kind::Direct | Kind::V2ray { .. } => "a password".into(),
        }
    }

    /// The server's command, or `None` where there is no server.
    pub(super) fn server(&self, listen: SocketAddr, folder: &Path) -> io::Result<Option<Command>> {
        Ok(match &self.kind {
            Kind::Direct => None,
            Kind::V2ray { protocol, .. } => {
                let settings = match *protocol {
                    "vless" => json!({"clients": [{"id": USER}], "decryption": "none"}),
                    _ => json!({"clients": [{"id": USER, "alterId": 0}]}),
                };
                let inbound =
                    json!({"listen": "127.0.0.1", "port": listen.port(), "protocol": protocol, "settings": settings});
                Some(v2ray(&inbound, &json!({"protocol": "freedom"}), &folder.join("server.json"))?)
            }
            Kind::Libev { method } => Some(libev("ss-server", listen, None, method, &self.password())?),
            Kind::Rust { method, .. } => {
                let mut command = Command::new(program("ssserver", "CULVERT_PEER_SSSERVER")?);
                command.args(["-s", &listen.to_string(), "-m", method, "-k", &self.password()]);
                Some(command)
            }
        })
    }

    /// The client's command.
    pub(super) fn client(
        &self,
        side: Side,
        core: &Path,
        listen: SocketAddr,
        server: SocketAddr,
        folder: &Path,
    ) -> io::Result<Command> {
        if side == Side::Ours {
            let mut command = Command::new(core);
            command.args(["run", &self.link(server), "--global", "--mixed", &listen.to_string()]);
            // A folder of its own: a benchmark must not touch anyone's nodes.
            command.env("XDG_DATA_HOME", folder).env("XDG_RUNTIME_DIR", folder);
            return Ok(command);
        }
        match &self.kind {
            Kind::Direct | Kind::V2ray { .. } => {
                let inbound = json!({
                    "listen": "127.0.0.1", "port": listen.port(), "protocol": "socks",
                    "settings": {"auth": "noauth", "udp": false},
                });
                v2ray(&inbound, &self.v2ray_outbound(server), &folder.join("client.json"))
            }
            Kind::Libev { method } => libev("ss-local", listen, Some(server), method, &self.password()),
            Kind::Rust { method, .. } => {
                let mut command = Command::new(program("sslocal", "CULVERT_PEER_SSLOCAL")?);
                command.args([
                    "-b",
                    &listen.to_string(),
                    "-s",
                    &server.to_string(),
                    "-m",
                    method,
                    "-k",
                    &self.password(),
                ]);
                Ok(command)
            }
        }
    }

    fn v2ray_outbound(&self, server: SocketAddr) -> Value {
        let Kind::V2ray { protocol, security } = self.kind else { return json!({"protocol": "freedom"}) };
        let user = match protocol {
            "vless" => json!({"id": USER, "encryption": "none"}),
            _ => json!({"id": USER, "alterId": 0, "security": security}),
        };
        json!({"protocol": protocol, "settings": {"vnext": [
            {"address": "127.0.0.1", "port": server.port(), "users": [user]}
        ]}})
    }

    /// The share link of the server, or the word for no server.
    fn link(&self, server: SocketAddr) -> String {
        match &self.kind {
            Kind::Direct => "direct".into(),
            Kind::V2ray { protocol: "vless", .. } => format!("vless://{USER}@{server}?encryption=none&type=tcp#bench"),
            Kind::V2ray { security, .. } => {
                let body = json!({
                    "v": "2", "ps": "bench", "add": "127.0.0.1", "port": server.port(), "id": USER, "aid": 0,
                    "scy": security, "net": "tcp", "type": "none", "tls": "",
                });
                format!("vmess://{}", STANDARD.encode(body.to_string()))
            }
            Kind::Libev { method } | Kind::Rust { method, .. } => {
                // SIP022 wants the 2022 methods unencoded; percent-encoding is right for both.
                if method.starts_with("2022") {
                    let key = self.password().replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
                    format!("ss://{method}:{key}@{server}#bench")
                } else {
                    let user = URL_SAFE_NO_PAD.encode(format!("{method}:{}", self.password()));
                    format!("ss://{user}@{server}#bench")
                }
            }
        }
    }
}

fn program(name: &str, variable: &str) -> io::Result<PathBuf> {
    find(name, variable).ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("{name} is not installed")))
}

fn v2ray(inbound: &Value, outbound: &Value, path: &Path) -> io::Result<Command> {
    let config = json!({"log": {"loglevel": "none"}, "inbounds": [inbound], "outbounds": [outbound]});
    fs::write(path, config.to_string())?;
    let mut command = Command::new(program("v2ray", "CULVERT_PEER_V2RAY")?);
    command.arg("-config").arg(path);
    Ok(command)
}

fn libev(
    name: &str,
    listen: SocketAddr,
    server: Option<SocketAddr>,
    method: &str,
    password: &str,
) -> io::Result<Command> {
    let variable = if name == "ss-server" { "CULVERT_PEER_SS_SERVER" } else { "CULVERT_PEER_SS_LOCAL" };
    let mut command = Command::new(program(name, variable)?);
    let server_port = server.unwrap_or(listen).port().to_string();
    command.args(["-s", "127.0.0.1", "-p", &server_port, "-m", method, "-k", password]);
    if server.is_some() {
        command.args(["-b", "127.0.0.1", "-l", &listen.port().to_string()]);
    }
    Ok(command)
}
