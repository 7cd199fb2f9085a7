//! What the app does: one task that hears the core, the window and the tray, and tells the shell.

use std::sync::Arc;
use std::time::Duration;

use culvert_ipc::methods::{
    ConnectionConnect, ConnectionDisconnect, NodesList, ProxySet, StateSubscribe, SystemShutdown, TestsStart,
};
use culvert_ipc::types::{
    ConnectParams, ConnectionPhase, ConnectionStatus, NodeRow, NodesListParams, Nothing, ProxySetParams, Snapshot,
    SubscribeParams, TestKind, TestsStartParams,
};
use culvert_ipc::{Client, ClientError, ErrorCode, Event, Numbered, RpcError, Topic};
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::allowed::may_call;
use crate::attach::Connector;
use crate::incoming::Incoming;
use crate::tray::{TrayAction, TrayView};
use crate::words::Language;

/// What the desktop offers: the window, the tray, the end of the program.
pub trait Shell: Send + 'static {
    /// Shows the window, made anew when there is none.
    fn show_window(&self);
    /// Takes the window away; the program goes on.
    fn close_window(&self);
    /// Hands a message to the page; dropped while there is none.
    fn tell_page(&self, message: Incoming);
    /// Draws the tray.
    fn draw_tray(&self, view: &TrayView);
    /// Ends the program.
    fn exit(&self);
}

/// What happens around the controller.
#[derive(Debug)]
pub enum Input {
    /// The page is ready to hear.
    PageOpened,
    /// The window is gone, and its page with it.
    PageClosed,
    /// A second start, or a deep link: the arguments.
    Opened(Vec<String>),
    /// Something was chosen in the tray.
    Tray(TrayAction),
    /// The page's language.
    Language(Language),
    /// Put the system's settings back and end.
    Quit,
    /// What a call of ours brought.
    Reply(Reply),
}

/// What the controller's own calls bring.
#[derive(Debug)]
pub enum Reply {
    /// The state at the beginning of a subscription.
    Subscribed(Box<Snapshot>),
    /// The nodes for the tray.
    Nodes(Vec<NodeRow>),
    /// A choice in the tray was refused.
    Refused(RpcError),
}

/// The way to the controller, and past it to the core.
#[derive(Debug, Clone)]
pub struct Handle {
    inputs: mpsc::UnboundedSender<Input>,
    core: watch::Receiver<Option<Shared>>,
}

#[derive(Clone)]
struct Shared(Arc<Client>);

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

impl Handle {
    /// Tells the controller what happened.
    pub fn tell(&self, input: Input) {
        // A controller that has ended has nothing more to hear.
        let _ = self.inputs.send(input);
    }

    /// Calls `method` of the core for the page.
    ///
    /// # Errors
    /// `UnknownMethod` for methods that the page may not call; the core's refusals; `Internal`
    /// while there is no core.
    pub async fn call(&self, method: &str, params: Value) -> Result<Value, RpcError> {
        if !may_call(method) {
            let shown: String = method.chars().take(64).collect();
            return Err(RpcError::new(ErrorCode::UnknownMethod, format!("the page may not call {shown:?}"))
                .with("method", shown));
        }
        let client = self.core.borrow().clone();
        let Some(Shared(client)) = client else {
            return Err(refusal(ClientError::Closed));
        };
        client.call_raw(method, params).await.map_err(refusal)
    }
}

/// An error of the connection as the page reads errors.
fn refusal(error: ClientError) -> RpcError {
    match error {
        ClientError::Refused(error) => error,
        ClientError::Io(_) | ClientError::Closed | ClientError::Answer(_) => {
            let reason = error.to_string();
            RpcError::new(ErrorCode::Internal, reason.clone()).with("reason", reason)
        }
    }
}

/// Waits between two tries to bring the core back.
const RETRY: [Duration; 4] =
    [Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(3), Duration::from_secs(10)];
/// How long the core may take to put everything back at the end.
const QUIT_LIMIT: Duration = Duration::from_secs(5);
/// Rows a page of the node list.
const NODES_PAGE: u32 = 2_000;

/// The app over a connector and a shell.
pub struct Controller<C, S> {
    connector: C,
    shell: S,
    inputs: mpsc::UnboundedReceiver<Input>,
    replies: mpsc::UnboundedSender<Input>,
    publish: watch::Sender<Option<Shared>>,
    language: Language,
    page: bool,
    waiting_import: Option<String>,
    status: Option<ConnectionStatus>,
    nodes: Vec<NodeRow>,
    drawn: Option<TrayView>,
}

/// How a connection to the core ended.
enum Ended {
    Lost,
    Quit,
}

impl<C: Connector, S: Shell> Controller<C, S> {
    /// A controller and the way to it.
    pub fn new(connector: C, shell: S, language: Language) -> (Self, Handle) {
        let (inputs, receiver) = mpsc::unbounded_channel();
        let (publish, core) = watch::channel(None);
        let controller = Self {
            connector,
            shell,
            inputs: receiver,
            replies: inputs.clone(),
            publish,
            language,
            page: false,
            waiting_import: None,
            status: None,
            nodes: Vec::new(),
            drawn: None,
        };
        (controller, Handle { inputs, core })
    }

    /// Runs until the person quits.
    pub async fn run(mut self) {
        let mut failures = 0;
        loop {
            self.draw();
            match self.attach().await {
                Some(Ok((client, events))) => {
                    failures = 0;
                    match self.attend(Arc::new(client), events).await {
                        Ended::Quit => break,
                        Ended::Lost => self.detached("the core ended".to_owned()),
                    }
                }
                Some(Err(error)) => {
                    tracing::warn!("{error}");
                    self.detached(error.to_string());
                    let pause = RETRY.get(failures).or(RETRY.last()).copied().unwrap_or_default();
                    failures += 1;
                    if self.rest(pause).await {
                        break;
                    }
                }
                None => break,
            }
        }
        self.shell.exit();
    }

    /// Attaches, and goes on hearing meanwhile. None when the person quits first.
    async fn attach(&mut self) -> Option<Result<(Client, mpsc::Receiver<Numbered>), crate::attach::AttachError>> {
        // The parts are borrowed apart, so that inputs are heard while the connector works.
        let mut heard = Vec::new();
        let outcome = {
            let Self { connector, inputs, .. } = self;
            let attaching = connector.attach();
            tokio::pin!(attaching);
            loop {
                tokio::select! {
                    outcome = &mut attaching => break Some(outcome),
                    input = inputs.recv() => match input {
                        Some(Input::Quit | Input::Tray(TrayAction::Quit)) | None => break None,
                        Some(input) => heard.push(input),
                    },
                }
            }
        };
        for input in heard {
            self.hear(input, None);
        }
        outcome
    }

    /// Waits, and goes on hearing. True when the person quits.
    async fn rest(&mut self, pause: Duration) -> bool {
        let rest = tokio::time::sleep(pause);
        tokio::pin!(rest);
        loop {
            tokio::select! {
                () = &mut rest => return false,
                input = self.inputs.recv() => match input {
                    Some(Input::Quit | Input::Tray(TrayAction::Quit)) | None => return true,
                    Some(input) => self.hear(input, None),
                },
            }
        }
    }

    /// Serves one connection to the core.
    async fn attend(&mut self, client: Arc<Client>, mut events: mpsc::Receiver<Numbered>) -> Ended {
        self.publish.send_replace(Some(Shared(Arc::clone(&client))));
        self.subscribe(&client);
        self.read_nodes(&client);
        loop {
            tokio::select! {
                event = events.recv() => match event {
                    Some(numbered) => self.happened(numbered.event, &client),
                    None => return Ended::Lost,
                },
                input = self.inputs.recv() => match input {
                    Some(Input::Quit | Input::Tray(TrayAction::Quit)) | None => {
                        self.shell.close_window();
                        // The events that come meanwhile are of no use any more, but must be taken,
                        // or the answer behind them is not read.
                        let drain = async { while events.recv().await.is_some() {} };
                        let ending = async {
                            let _ = timeout(QUIT_LIMIT, client.call::<SystemShutdown>(Nothing {})).await;
                        };
                        tokio::select! { () = ending => {}, () = drain => {} }
                        return Ended::Quit;
                    }
                    Some(input) => self.hear(input, Some(&client)),
                },
            }
        }
    }

    fn hear(&mut self, input: Input, client: Option<&Arc<Client>>) {
        match input {
            Input::PageOpened => {
                self.page = true;
                // The snapshot that comes with the subscription is the page's first message.
                if let Some(client) = client {
                    self.subscribe(client);
                }
                if let Some(text) = self.waiting_import.take() {
                    self.shell.tell_page(Incoming::Import { text });
                }
            }
            Input::PageClosed => {
                self.page = false;
                if let Some(client) = client {
                    self.subscribe(client);
                }
            }
            Input::Opened(arguments) => {
                if let Some(text) = links_in(&arguments) {
                    if self.page {
                        self.shell.tell_page(Incoming::Import { text });
                    } else {
                        self.waiting_import = Some(text);
                    }
                }
                self.shell.show_window();
            }
            Input::Language(language) => {
                self.language = language;
                self.draw();
            }
            Input::Tray(action) => self.chosen(action, client),
            Input::Reply(reply) => self.replied(reply),
            // Both callers take it before.
            Input::Quit => {}
        }
    }

    fn replied(&mut self, reply: Reply) {
        match reply {
            Reply::Subscribed(snapshot) => {
                self.status = Some(snapshot.connection.clone());
                self.draw();
                if self.page {
                    self.shell.tell_page(Incoming::Attached { snapshot });
                }
            }
            Reply::Nodes(rows) => {
                self.nodes = rows;
                self.draw();
            }
            Reply::Refused(error) => {
                self.shell.show_window();
                self.shell.tell_page(Incoming::Refused { error });
            }
        }
    }

    fn happened(&mut self, event: Event, client: &Arc<Client>) {
        match &event {
            Event::Connection(status) => {
                self.status = Some(status.clone());
                self.draw();
            }
            Event::Nodes(delta) => {
                self.nodes.retain(|row| !delta.removed.contains(&row.id));
                for changed in &delta.changed {
                    match self.nodes.iter_mut().find(|row| row.id == changed.id) {
                        Some(row) => *row = changed.clone(),
                        None => self.nodes.push(changed.clone()),
                    }
                }
                self.draw();
            }
            Event::NodesReload => self.read_nodes(client),
            Event::Resnapshot => {
                self.subscribe(client);
                self.read_nodes(client);
                // The page gets the snapshot instead.
                return;
            }
            Event::Settings(_)
            | Event::Demo(_)
            | Event::Traffic(_)
            | Event::Connections(_)
            | Event::TestProgress(_)
            | Event::TestResults(_)
            | Event::Logs(_) => {}
        }
        if self.page {
            self.shell.tell_page(Incoming::Event { event: Box::new(event) });
        }
    }

    fn chosen(&mut self, action: TrayAction, client: Option<&Arc<Client>>) {
        if matches!(action, TrayAction::Open) {
            self.shell.show_window();
            return;
        }
        let (Some(client), Some(status)) = (client.map(Arc::clone), &self.status) else {
            return;
        };
        let off = status.phase == ConnectionPhase::Off;
        let without_node = status.node.is_none();
        let first = self.drawn.as_ref().and_then(|view| view.nodes.first()).map(|node| node.id);
        let replies = self.replies.clone();
        tokio::spawn(async move {
            let connect = |node| client.call::<ConnectionConnect>(ConnectParams { node, system_proxy: None });
            let outcome = match action {
                TrayAction::Toggle if off => connect(first.filter(|_| without_node)).await.map(drop),
                TrayAction::Toggle => client.call::<ConnectionDisconnect>(Nothing {}).await.map(drop),
                TrayAction::SystemProxy(system_proxy) => {
                    client.call::<ProxySet>(ProxySetParams { system_proxy }).await.map(drop)
                }
                TrayAction::Use(node) => connect(Some(node)).await.map(drop),
                TrayAction::TestAll => {
                    client.call::<TestsStart>(TestsStartParams { kind: TestKind::Latency, nodes: None }).await.map(drop)
                }
                TrayAction::Open | TrayAction::Quit => Ok(()),
            };
            if let Err(error) = outcome {
                let _ = replies.send(Input::Reply(Reply::Refused(refusal(error))));
            }
        });
    }

    /// Hears of everything while there is a page, of the little that the tray needs otherwise.
    fn subscribe(&self, client: &Arc<Client>) {
        let topics = if self.page {
            vec![Topic::State, Topic::Nodes, Topic::Traffic, Topic::Connections, Topic::Tests, Topic::Logs]
        } else {
            vec![Topic::State, Topic::Nodes]
        };
        let (client, replies) = (Arc::clone(client), self.replies.clone());
        tokio::spawn(async move {
            match client.call::<StateSubscribe>(SubscribeParams { topics }).await {
                Ok(subscribed) => {
                    let _ = replies.send(Input::Reply(Reply::Subscribed(Box::new(subscribed.snapshot))));
                }
                // A connection that broke is noticed where its events end.
                Err(error) => tracing::warn!("the core's events can't be heard: {error}"),
            }
        });
    }

    fn read_nodes(&self, client: &Arc<Client>) {
        let (client, replies) = (Arc::clone(client), self.replies.clone());
        tokio::spawn(async move {
            let mut rows = Vec::new();
            loop {
                let params = NodesListParams {
                    offset: u32::try_from(rows.len()).unwrap_or(u32::MAX),
                    limit: Some(NODES_PAGE),
                    search: None,
                };
                match client.call::<NodesList>(params).await {
                    Ok(page) if page.rows.is_empty() => break,
                    Ok(page) => {
                        rows.extend(page.rows);
                        if rows.len() >= page.total as usize {
                            break;
                        }
                    }
                    Err(error) => {
                        tracing::warn!("the nodes can't be read: {error}");
                        return;
                    }
                }
            }
            let _ = replies.send(Input::Reply(Reply::Nodes(rows)));
        });
    }

    fn detached(&mut self, reason: String) {
        self.publish.send_replace(None);
        self.status = None;
        self.nodes.clear();
        self.draw();
        if self.page {
            self.shell.tell_page(Incoming::Detached { reason });
        }
    }

    fn draw(&mut self) {
        let view = match &self.status {
            Some(status) => TrayView::of(status, &self.nodes, self.language),
            None => TrayView::without_core(self.language),
        };
        if self.drawn.as_ref() != Some(&view) {
            self.shell.draw_tray(&view);
            self.drawn = Some(view);
        }
    }
}

/// The most that is taken from a command line or a deep link, in bytes.
const MOST_LINK_TEXT: usize = 64 * 1024;

/// The links among a program's arguments, one a line.
fn links_in(arguments: &[String]) -> Option<String> {
    let links: Vec<&str> = arguments
        .iter()
        .map(|argument| argument.trim())
        .filter(|argument| argument.contains("://") && !argument.starts_with("file://"))
        .collect();
    let text = links.join("\n");
    (!text.is_empty() && text.len() <= MOST_LINK_TEXT).then_some(text)
}

#[cfg(test)]
mod tests;
