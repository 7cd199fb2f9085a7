use std::sync::Mutex;

use culvert_ipc::types::{ConnectionPhase, NodeRef};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::mpsc::UnboundedReceiver;

use super::*;
use crate::attach::AttachError;

/// What the shell was told, in order.
#[derive(Debug, Clone, PartialEq)]
enum Told {
    Show,
    Close,
    Page(Box<Incoming>),
    Tray(TrayView),
    Exit,
}

struct MockShell(mpsc::UnboundedSender<Told>);

impl Shell for MockShell {
    fn show_window(&self) {
        self.0.send(Told::Show).unwrap();
    }
    fn close_window(&self) {
        self.0.send(Told::Close).unwrap();
    }
    fn tell_page(&self, message: Incoming) {
        self.0.send(Told::Page(Box::new(message))).unwrap();
    }
    fn draw_tray(&self, view: &TrayView) {
        self.0.send(Told::Tray(view.clone())).unwrap();
    }
    fn exit(&self) {
        self.0.send(Told::Exit).unwrap();
    }
}

/// A core that speaks the real wire over a pipe in memory. Each attach makes a new pipe.
#[derive(Clone)]
struct MockCore(Arc<Mutex<mpsc::UnboundedSender<DuplexStream>>>);

impl Connector for MockCore {
    async fn attach(&self) -> Result<(Client, mpsc::Receiver<Numbered>), AttachError> {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        self.0.lock().unwrap().send(theirs).unwrap();
        let (reader, writer) = tokio::io::split(ours);
        Ok(Client::over(reader, writer))
    }
}

struct Scene {
    handle: Handle,
    told: UnboundedReceiver<Told>,
    pipes: UnboundedReceiver<DuplexStream>,
}

fn scene() -> Scene {
    let (told, hears) = mpsc::unbounded_channel();
    let (pipes, opened) = mpsc::unbounded_channel();
    let (controller, handle) =
        Controller::new(MockCore(Arc::new(Mutex::new(pipes))), MockShell(told), Language::English);
    tokio::spawn(controller.run());
    Scene { handle, told: hears, pipes: opened }
}

/// Answers requests on `pipe` and reports their names; what comes in on `send` is written as it is.
fn serve(pipe: DuplexStream, mut send: UnboundedReceiver<String>) -> UnboundedReceiver<(String, Value)> {
    let (calls, seen) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let (reader, mut writer) = tokio::io::split(pipe);
        let mut lines = BufReader::new(reader).lines();
        loop {
            let text = tokio::select! {
                line = lines.next_line() => {
                    let Ok(Some(line)) = line else { break };
                    let request: Value = serde_json::from_str(&line).unwrap();
                    let method = request["method"].as_str().unwrap().to_owned();
                    let result = answer(&method);
                    let _ = calls.send((method, request["params"].clone()));
                    serde_json::json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string()
                }
                event = send.recv() => match event {
                    Some(text) => text,
                    None => break,
                },
            };
            if writer.write_all(format!("{text}\n").as_bytes()).await.is_err() {
                break;
            }
        }
    });
    seen
}

fn answer(method: &str) -> Value {
    match method {
        "state.subscribe" => serde_json::json!({"seq": 1, "snapshot": {
            "core_version": "1.2.3", "connection": ConnectionStatus::default(),
            "settings": culvert_ipc::types::Settings::default(), "traffic": culvert_ipc::types::Traffic::default(),
            "nodes": 0, "tests": [], "store": culvert_ipc::types::StoreStatus::default(),
            "demo": culvert_ipc::types::DemoStatus::default()}}),
        "nodes.list" => serde_json::json!({"total": 0, "rows": []}),
        "connection.connect" => serde_json::to_value(ConnectionStatus::default()).unwrap(),
        _ => serde_json::json!({}),
    }
}

fn connected_event() -> String {
    let status = ConnectionStatus {
        phase: ConnectionPhase::Connected,
        node: Some(NodeRef { id: culvert_ipc::types::NodeId(4), name: "Tokyo".to_owned() }),
        ..ConnectionStatus::default()
    };
    let numbered = Numbered { seq: 2, event: Event::Connection(status) };
    serde_json::json!({"jsonrpc": "2.0", "method": "event", "params": numbered}).to_string()
}

async fn next<T>(receiver: &mut UnboundedReceiver<T>) -> T {
    timeout(Duration::from_secs(5), receiver.recv()).await.expect("nothing came").expect("the sender is gone")
}

/// The next thing told that `wanted` picks.
async fn until<T>(told: &mut UnboundedReceiver<Told>, mut wanted: impl FnMut(Told) -> Option<T>) -> T {
    loop {
        if let Some(found) = wanted(next(told).await) {
            return found;
        }
    }
}

async fn until_call(calls: &mut UnboundedReceiver<(String, Value)>, method: &str) -> Value {
    loop {
        let (name, params) = next(calls).await;
        if name == method {
            return params;
        }
    }
}

#[tokio::test]
async fn the_page_gets_a_snapshot_then_events_and_the_tray_follows() {
    let mut scene = scene();
    let (events, sent) = mpsc::unbounded_channel();
    let mut calls = serve(next(&mut scene.pipes).await, sent);
    let first = until_call(&mut calls, "state.subscribe").await;
    assert_eq!(first["topics"], serde_json::json!(["state", "nodes"]), "hidden: no rates, no flows");
    scene.handle.tell(Input::PageOpened);
    let snapshot = until(&mut scene.told, |told| {
        let Told::Page(message) = told else { return None };
        if let Incoming::Attached { snapshot } = *message { Some(snapshot) } else { None }
    })
    .await;
    assert_eq!(snapshot.core_version, "1.2.3");
    events.send(connected_event()).unwrap();
    let title = until(&mut scene.told, |told| {
        let Told::Tray(view) = told else { return None };
        view.title.contains("Tokyo").then_some(view.title)
    })
    .await;
    assert_eq!(title, "Connected through Tokyo");
    until(&mut scene.told, |told| {
        matches!(told, Told::Page(message) if matches!(*message, Incoming::Event { .. })).then_some(())
    })
    .await;
}

#[tokio::test]
async fn quitting_ends_the_core_before_the_app() {
    let mut scene = scene();
    let (_events, sent) = mpsc::unbounded_channel::<String>();
    let mut calls = serve(next(&mut scene.pipes).await, sent);
    until_call(&mut calls, "nodes.list").await;
    scene.handle.tell(Input::Tray(TrayAction::Quit));
    until_call(&mut calls, "system.shutdown").await;
    until(&mut scene.told, |told| (told == Told::Close).then_some(())).await;
    until(&mut scene.told, |told| (told == Told::Exit).then_some(())).await;
}

#[tokio::test]
async fn a_core_that_dies_is_brought_back() {
    let mut scene = scene();
    let (events, sent) = mpsc::unbounded_channel::<String>();
    let mut calls = serve(next(&mut scene.pipes).await, sent);
    until_call(&mut calls, "nodes.list").await;
    scene.handle.tell(Input::PageOpened);
    until_call(&mut calls, "state.subscribe").await;
    drop(events);
    until(&mut scene.told, |told| {
        matches!(told, Told::Page(message) if matches!(*message, Incoming::Detached { .. })).then_some(())
    })
    .await;
    let (_events, sent) = mpsc::unbounded_channel::<String>();
    let mut calls = serve(next(&mut scene.pipes).await, sent);
    let topics = until_call(&mut calls, "state.subscribe").await;
    assert_eq!(topics["topics"].as_array().unwrap().len(), 6, "the page is still there");
    until(&mut scene.told, |told| {
        matches!(told, Told::Page(message) if matches!(*message, Incoming::Attached { .. })).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_link_from_outside_waits_for_the_page() {
    let mut scene = scene();
    let (_events, sent) = mpsc::unbounded_channel::<String>();
    let mut calls = serve(next(&mut scene.pipes).await, sent);
    until_call(&mut calls, "state.subscribe").await;
    let arguments = ["culvert", "file:///etc/passwd", "vless://id@example.com:443#A"].map(str::to_owned);
    scene.handle.tell(Input::Opened(arguments.to_vec()));
    until(&mut scene.told, |told| (told == Told::Show).then_some(())).await;
    scene.handle.tell(Input::PageOpened);
    let text = until(&mut scene.told, |told| {
        let Told::Page(message) = told else { return None };
        if let Incoming::Import { text } = *message { Some(text) } else { None }
    })
    .await;
    assert_eq!(text, "vless://id@example.com:443#A");
}

#[tokio::test]
async fn the_tray_connects_and_the_page_calls_only_what_it_may() {
    let mut scene = scene();
    let (events, sent) = mpsc::unbounded_channel::<String>();
    let mut calls = serve(next(&mut scene.pipes).await, sent);
    until_call(&mut calls, "nodes.list").await;
    events.send(connected_event()).unwrap();
    until(&mut scene.told, |told| matches!(told, Told::Tray(view) if view.title.contains("Tokyo")).then_some(())).await;
    scene.handle.tell(Input::Tray(TrayAction::Toggle));
    until_call(&mut calls, "connection.disconnect").await;
    scene.handle.tell(Input::Tray(TrayAction::Use(culvert_ipc::types::NodeId(7))));
    assert_eq!(until_call(&mut calls, "connection.connect").await["node"], 7);
    let refused = scene.handle.call("system.shutdown", Value::Null).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::UnknownMethod);
    assert_eq!(scene.handle.call("nodes.list", serde_json::json!({"offset": 0})).await.unwrap()["total"], 0);
}
