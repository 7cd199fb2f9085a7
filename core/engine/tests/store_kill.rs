//! The store outlives a kill -9 at any moment: it opens, and nothing that was said to be kept is
//! lost.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by them")]
#![cfg(unix)]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use culvert_engine::store::{MemoryKey, NewNode, Store};
use culvert_ipc::types::{NodeId, Settings};

const FOLDER: &str = "CULVERT_TEST_STORE";
const ROUNDS: u64 = 20;

fn open(folder: &Path) -> Store {
    Store::open(folder, Arc::new(MemoryKey::holding([5; 32]))).unwrap()
}

/// Not a test of its own: the process that is killed. Does nothing unless it is told a folder.
#[test]
fn writer() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let store = open(Path::new(&folder));
    let link = "trojan://secret@example.com:443";
    let mut out = std::io::stdout().lock();
    for round in 0_u16.. {
        let node = culvert_profile::parse_link(&format!("{link}#{round}")).unwrap();
        let nodes: Vec<NewNode> = (0..5).map(|_| NewNode { node: node.clone(), subscription: None }).collect();
        let ids = store.add_nodes(&nodes).unwrap();
        store.delete_nodes(&ids[4..]).unwrap();
        store.save_settings(&Settings { mixed_port: round + 1, ..Settings::default() }).unwrap();
        writeln!(out, "kept {} {}", ids[0].0, round + 1).unwrap();
        out.flush().unwrap();
    }
}

#[test]
fn nothing_kept_is_lost_by_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let mut kept: Vec<u32> = Vec::new();
    let mut port = 0;
    for round in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "writer", "--nocapture", "--test-threads=1"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut note = |line: &str| {
            let Some(at) = line.find("kept ") else { return false };
            let mut words = line[at + 5..].split(' ');
            kept.push(words.next().unwrap().parse().unwrap());
            port = words.next().unwrap().parse::<u16>().unwrap();
            true
        };
        // Killed at another point of its work each time, once it has begun.
        while !note(&lines.next().unwrap().unwrap()) {}
        std::thread::sleep(Duration::from_micros(round * 1_370));
        child.kill().unwrap();
        child.wait().unwrap();
        for line in lines.map_while(Result::ok) {
            note(&line);
        }

        let store = open(folder.path());
        for id in &kept {
            let node = store.node(NodeId(*id)).unwrap();
            assert!(node.is_some(), "node {id} was kept and is lost");
            // All five of a batch or none.
            assert!(store.node(NodeId(id + 3)).unwrap().is_some());
        }
        let found = store.settings().unwrap().mixed_port;
        assert!(found == port || found == port + 1, "settings are of round {found}, not {port}");
        assert!(store.all_nodes().unwrap().1.is_empty());
    }
}
