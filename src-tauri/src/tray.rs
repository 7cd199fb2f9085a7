//! What the tray shows: pure, from the core's statements to lines of a menu.

use culvert_ipc::types::{ConnectionPhase, ConnectionStatus, Mode, NodeId, NodeRow, StageState};

use crate::words::{Language, Words};

/// Nodes in the tray's own list; the window has the rest.
const MOST_NODES: usize = 12;
/// The longest name in a menu, in characters.
const MOST_NAME: usize = 40;

/// The state that the icon's outline tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TrayState {
    /// Nothing runs.
    Off,
    /// A step is under way.
    Working,
    /// A page was fetched through the node.
    Verified,
    /// Works, but badly.
    Degraded,
    /// Does not work.
    Failed,
}

/// A choice in the tray.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrayAction {
    /// Connect, or end what runs.
    Toggle,
    /// The other position of the system proxy's switch.
    SystemProxy(bool),
    /// Connect through a node.
    Use(NodeId),
    /// Test all nodes.
    TestAll,
    /// Show the window.
    Open,
    /// Put the system's settings back and end.
    Quit,
}

/// One node in the tray.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrayNode {
    /// Number.
    pub id: NodeId,
    /// Name and latency.
    pub text: String,
    /// It is in use.
    pub checked: bool,
}

/// The whole tray.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrayView {
    /// For the icon.
    pub state: TrayState,
    /// First line, and the icon's tooltip.
    pub title: String,
    /// What connects or disconnects, and whether it can be chosen.
    pub toggle: (&'static str, bool),
    /// The system proxy points here; absent while the core is not there.
    pub system_proxy: Option<bool>,
    /// The best few nodes.
    pub nodes: Vec<TrayNode>,
    /// The other words.
    pub words: &'static Words,
}

impl TrayView {
    /// The tray while the core is not there.
    pub fn without_core(language: Language) -> Self {
        let words = Words::of(language);
        Self {
            state: TrayState::Off,
            title: words.no_core.to_owned(),
            toggle: (words.connect, false),
            system_proxy: None,
            nodes: Vec::new(),
            words,
        }
    }

    /// The tray of `status` and the nodes of the list.
    pub fn of(status: &ConnectionStatus, nodes: &[NodeRow], language: Language) -> Self {
        let words = Words::of(language);
        let state = state_of(status);
        let name = status.node.as_ref().map(|node| short(&node.name));
        let title = match (state, name, status.mode) {
            (TrayState::Verified, _, Mode::Direct) => words.connected_directly.to_owned(),
            (TrayState::Verified, Some(name), Mode::Rule | Mode::Global) => {
                format!("{} {name}", words.connected_through)
            }
            (TrayState::Verified, None, Mode::Rule | Mode::Global) => words.connected_directly.to_owned(),
            (TrayState::Degraded, _, _) => words.degraded.to_owned(),
            (TrayState::Failed, _, _) => words.failed.to_owned(),
            (TrayState::Working, _, _) => words.connecting.to_owned(),
            (TrayState::Off, _, _) => words.off.to_owned(),
        };
        let toggle = match status.phase {
            ConnectionPhase::Off => (words.connect, status.node.is_some() || !nodes.is_empty()),
            ConnectionPhase::Connecting => (words.cancel, true),
            ConnectionPhase::Connected | ConnectionPhase::Failed => (words.disconnect, true),
        };
        Self { state, title, toggle, system_proxy: Some(status.system_proxy), nodes: best(nodes, status), words }
    }
}

fn state_of(status: &ConnectionStatus) -> TrayState {
    match status.phase {
        ConnectionPhase::Off => TrayState::Off,
        ConnectionPhase::Connecting => TrayState::Working,
        ConnectionPhase::Failed => TrayState::Failed,
        ConnectionPhase::Connected => {
            let stages = &status.stages;
            let slow = [&stages.computer, &stages.rules, &stages.node, &stages.internet]
                .iter()
                .any(|stage| stage.state == StageState::Degraded);
            if slow { TrayState::Degraded } else { TrayState::Verified }
        }
    }
}

/// The node in use, then favourites, then the fastest.
fn best(nodes: &[NodeRow], status: &ConnectionStatus) -> Vec<TrayNode> {
    let in_use = status.node.as_ref().map(|node| node.id);
    let mut usable: Vec<&NodeRow> = nodes.iter().filter(|row| row.unsupported.is_none() && !row.locked).collect();
    let median = |row: &NodeRow| row.latency.as_ref().and_then(|latency| latency.median_ms).unwrap_or(f64::INFINITY);
    usable.sort_by(|a, b| {
        let rank = |row: &NodeRow| (Some(row.id) != in_use, !row.favourite);
        rank(a).cmp(&rank(b)).then(median(a).total_cmp(&median(b))).then(a.id.cmp(&b.id))
    });
    usable
        .into_iter()
        .take(MOST_NODES)
        .map(|row| {
            let ms = median(row);
            let name = short(&row.name);
            TrayNode {
                id: row.id,
                text: if ms.is_finite() { format!("{name}  {ms:.0} ms") } else { name },
                checked: Some(row.id) == in_use && status.phase != ConnectionPhase::Off,
            }
        })
        .collect()
}

/// A name that fits in a menu. Names come from links, so nothing of them may break a line.
fn short(name: &str) -> String {
    let clean: String = name.chars().filter(|sign| !sign.is_control()).take(MOST_NAME + 1).collect();
    if clean.chars().count() > MOST_NAME { clean.chars().take(MOST_NAME).chain(['…']).collect() } else { clean }
}

#[cfg(test)]
mod tests {
    use culvert_ipc::types::{LatencySummary, NodeRef, SecurityKind};

    use super::*;

    fn row(id: u32, median_ms: Option<f64>, favourite: bool) -> NodeRow {
        NodeRow {
            id: NodeId(id),
            name: format!("Node\n{id}"),
            address: "example.com".to_owned(),
            port: 443,
            protocol: "vless".to_owned(),
            security: SecurityKind::None,
            transport: "tcp".to_owned(),
            cipher: None,
            insecure: false,
            subscription: None,
            favourite,
            unsupported: None,
            locked: false,
            added_ms: 0,
            latency: Some(LatencySummary { at_ms: 0, median_ms, problem: None }),
            speed: None,
            last_success_ms: None,
            history: Vec::new(),
        }
    }

    #[test]
    fn the_node_in_use_leads_then_favourites_then_speed() {
        let mut unsupported = row(9, Some(1.0), true);
        unsupported.unsupported = Some("no".to_owned());
        let rows = [
            row(1, Some(80.0), false),
            row(2, None, false),
            row(3, Some(200.0), true),
            row(4, Some(300.0), false),
            unsupported,
        ];
        let status = ConnectionStatus {
            phase: ConnectionPhase::Connected,
            node: Some(NodeRef { id: NodeId(4), name: "Node 4".to_owned() }),
            ..ConnectionStatus::default()
        };
        let view = TrayView::of(&status, &rows, Language::English);
        let ids: Vec<u32> = view.nodes.iter().map(|node| node.id.0).collect();
        assert_eq!(ids, [4, 3, 1, 2]);
        assert!(view.nodes[0].checked && !view.nodes[1].checked);
        assert_eq!(view.nodes[0].text, "Node4  300 ms");
        assert_eq!(view.title, "Connected through Node 4");
        assert_eq!(view.state, TrayState::Verified);
    }

    #[test]
    fn each_phase_has_its_word_and_its_outline() {
        let of =
            |phase| TrayView::of(&ConnectionStatus { phase, ..ConnectionStatus::default() }, &[], Language::Chinese);
        let off = of(ConnectionPhase::Off);
        assert_eq!((off.state, off.toggle), (TrayState::Off, ("连接", false)));
        assert_eq!(of(ConnectionPhase::Connecting).toggle, ("取消", true));
        assert_eq!(of(ConnectionPhase::Failed).state, TrayState::Failed);
        let mut slow = ConnectionStatus { phase: ConnectionPhase::Connected, ..ConnectionStatus::default() };
        slow.stages.node.state = StageState::Degraded;
        assert_eq!(TrayView::of(&slow, &[], Language::English).state, TrayState::Degraded);
    }

    #[test]
    fn a_long_name_is_cut() {
        assert_eq!(short(&"字".repeat(60)).chars().count(), MOST_NAME + 1);
    }
}
