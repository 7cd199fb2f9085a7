//! A page through a way out, in-process: no port, no other program.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use culvert_ipc::types::{PhaseTime, Problem, ReasonCode};
use culvert_net::outbound::{ConnectRequest, Trace};
use culvert_net::stream::BoxStream;
use culvert_net::transport::tls;
use culvert_wire::address::{Destination, Host};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

use crate::leave::Leave;
use crate::problem::{of_connect, phase_word};

/// Where a test goes: an http or https address, checked.
#[derive(Debug, Clone)]
pub struct Page {
    url: http::Uri,
    destination: Destination,
    tls: bool,
}

impl Page {
    /// Reads an address such as `http://example.com/generate_204`.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let url: http::Uri = text.parse().map_err(|error| format!("{text:?} is no address: {error}"))?;
        let tls = match url.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err("only http and https addresses can be fetched".to_owned()),
        };
        let host = url.host().ok_or("the address has no host")?;
        let host = Host::parse(host).map_err(|error| error.to_string())?;
        let port = url.port_u16().unwrap_or(if tls { 443 } else { 80 });
        Ok(Self { destination: Destination::new(host, port), url, tls })
    }

    fn request(&self) -> Result<Request<Empty<Bytes>>, Problem> {
        let path = self.url.path_and_query().map_or("/", |path| path.as_str());
        let host = self.url.authority().map_or("", |authority| authority.as_str());
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        Request::get(path)
            .header(http::header::HOST, host)
            .header(http::header::USER_AGENT, "Mozilla/5.0")
            .header(http::header::ACCEPT, "*/*")
            .body(Empty::new())
            .map_err(|error| Problem::new(ReasonCode::Internal, format!("the request can't be made: {error}")))
    }
}

/// A connection to a page's server through a way out.
pub struct Fetcher {
    page: Page,
    sender: SendRequest<Empty<Bytes>>,
    driver: tokio::task::JoinHandle<()>,
    started: Instant,
    /// Phases that have been passed.
    pub phases: Vec<PhaseTime>,
}

impl Drop for Fetcher {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// A failure, and the phases that were passed before it.
pub type Failed = (Problem, Vec<PhaseTime>);

impl Fetcher {
    /// Opens the connection.
    ///
    /// # Errors
    /// Why the way failed.
    pub async fn open(page: Page, leave: &dyn Leave) -> Result<Self, Failed> {
        let request = ConnectRequest { destination: page.destination.clone(), first_payload: Bytes::new() };
        let started = Instant::now();
        let connected = leave.connect(request).await.map_err(|error| (of_connect(&error), Vec::new()))?;
        let phases = phase_times(&connected.trace);
        let (sender, driver) = if page.tls {
            let stream = match encrypt(&page, connected.stream).await {
                Ok(stream) => stream,
                Err(problem) => return Err((problem, phases)),
            };
            start(stream).await
        } else {
            start(connected.stream).await
        }
        .map_err(|problem| (problem, phases.clone()))?;
        Ok(Self { page, sender, driver, started, phases })
    }

    /// Asks for the page. Answers with the response's head and the time it took.
    ///
    /// # Errors
    /// Why there was no answer.
    pub async fn get(&mut self) -> Result<(Response<Incoming>, Duration), Problem> {
        self.sender.ready().await.map_err(|error| broken(&error))?;
        let request = self.page.request()?;
        let asked = Instant::now();
        let response = self.sender.send_request(request).await.map_err(|error| broken(&error))?;
        Ok((response, asked.elapsed()))
    }

    /// Time since the connection was asked for.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Whether another request can go over the same connection.
    pub fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }
}

/// Reads the body to its end, up to `limit` bytes.
///
/// # Errors
/// Why it ended early.
pub async fn drain(response: Response<Incoming>, limit: usize) -> Result<usize, Problem> {
    let mut body = response.into_body();
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| broken(&error))?;
        bytes += frame.data_ref().map_or(0, Bytes::len);
        if bytes > limit {
            break;
        }
    }
    Ok(bytes)
}

/// Phases with microseconds since the connection was asked for.
pub(crate) fn phase_times(trace: &Trace) -> Vec<PhaseTime> {
    trace
        .phases
        .iter()
        .map(|(phase, at)| PhaseTime {
            phase: phase_word(*phase).to_owned(),
            at_us: u64::try_from(at.as_micros()).unwrap_or(u64::MAX),
        })
        .collect()
}

pub(crate) fn broken(error: &hyper::Error) -> Problem {
    let reason = if error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
        "the connection was closed before the page came (is the node's password right?)".to_owned()
    } else {
        let mut text = error.to_string();
        if let Some(cause) = std::error::Error::source(error) {
            text = format!("{text}: {cause}");
        }
        text
    };
    Problem::new(ReasonCode::Answer, reason)
}

async fn start<S>(stream: S) -> Result<(SendRequest<Empty<Bytes>>, tokio::task::JoinHandle<()>), Problem>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| broken(&error))?;
    let driver = tokio::spawn(async move {
        // Its failure shows as the failure of the request.
        let _ = connection.await;
    });
    Ok((sender, driver))
}

async fn encrypt(page: &Page, stream: BoxStream) -> Result<tokio_rustls::client::TlsStream<BoxStream>, Problem> {
    let name = match &page.destination.host {
        Host::Ip(address) => ServerName::IpAddress((*address).into()),
        Host::Name(name) => ServerName::try_from(name.to_string())
            .map_err(|_| Problem::new(ReasonCode::Certificate, "the page's host name can't be in a certificate"))?,
    };
    let connector = TlsConnector::from(client_config()?);
    connector.connect(name, stream).await.map_err(|error| {
        Problem::new(ReasonCode::Certificate, format!("the page's own TLS failed: {error}"))
            .with("server", &page.destination)
    })
}

/// TLS for pages, with the system's roots, made when it is first needed.
fn client_config() -> Result<Arc<rustls::ClientConfig>, Problem> {
    static CONFIG: OnceLock<Arc<rustls::ClientConfig>> = OnceLock::new();
    if let Some(config) = CONFIG.get() {
        return Ok(Arc::clone(config));
    }
    let config = rustls::ClientConfig::builder_with_provider(tls::provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| Problem::new(ReasonCode::Internal, error.to_string()))?
        .with_root_certificates(tls::system_roots())
        .with_no_client_auth();
    Ok(Arc::clone(CONFIG.get_or_init(|| Arc::new(config))))
}
