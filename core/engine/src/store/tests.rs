use super::*;
use crate::keys::FileOnly;
use culvert_ipc::types::{NodeId, Settings};
use culvert_profile::Node;

fn node(name: &str) -> NewNode {
    let text = format!(
        r#"{{"name":"{name}","address":"192.0.2.1","port":8388,"protocol":"shadowsocks","method":"aes-128-gcm","password":"open sesame"}}"#
    );
    NewNode { node: serde_json::from_str::<Node>(&text).unwrap(), subscription: None }
}

fn open(folder: &Path) -> Store {
    Store::open(folder, Arc::new(FileOnly(folder.join("key")))).unwrap()
}

#[test]
fn nodes_come_back_and_secrets_are_not_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let ids = store.add_nodes(&[node("one"), node("two"), node("100% three")]).unwrap();
    assert_eq!(ids, [NodeId(1), NodeId(2), NodeId(3)]);
    drop(store);
    let store = open(folder.path());
    assert_eq!(store.node(NodeId(2)).unwrap().unwrap().node, node("two").node);
    let (total, rows) = store.list_nodes(1, 1, None).unwrap();
    assert_eq!((total, rows[0].name.as_str(), rows.len()), (3, "two", 1));
    assert_eq!(store.list_nodes(0, 9, Some("0% T")).unwrap().0, 1);
    assert_eq!(store.list_nodes(0, 9, Some("shadow")).unwrap().0, 3);
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!bytes.windows(11).any(|window| window == b"open sesame"));
    }
}

#[cfg(unix)]
#[test]
fn no_other_user_can_read_the_files_even_in_an_open_folder() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(folder.path().join(DATABASE), b"").unwrap();
    let store = open(folder.path());
    store.add_nodes(&[node("one")]).unwrap();
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name().to_string_lossy().starts_with(DATABASE) {
            assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o077, 0, "{:?}", entry.file_name());
        }
    }
}

#[test]
fn deleted_nodes_can_be_restored_and_numbers_are_not_used_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    store.add_nodes(&[node("one"), node("two")]).unwrap();
    assert_eq!(store.delete_nodes(&[NodeId(2), NodeId(9)]).unwrap(), [NodeId(2)]);
    assert_eq!(store.count_nodes().unwrap(), 1);
    assert!(store.node(NodeId(2)).unwrap().is_none());
    assert_eq!(store.restore_nodes(&[NodeId(1), NodeId(2)]).unwrap(), [NodeId(2)]);
    store.connection().execute("DELETE FROM nodes", []).unwrap();
    assert_eq!(store.add_nodes(&[node("three")]).unwrap(), [NodeId(3)]);
}

#[test]
fn a_missing_key_locks_and_is_never_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    store.add_nodes(&[node("one")]).unwrap();
    store.delete_nodes(&[NodeId(1)]).unwrap();
    drop(store);
    std::fs::rename(folder.path().join("key"), folder.path().join("kept")).unwrap();

    let store = open(folder.path());
    let refused = store.add_nodes(&[node("two")]).unwrap_err();
    assert!(matches!(refused, StoreError::Seal(SealError::Key(KeyError::Missing))), "{refused}");
    assert!(!folder.path().join("key").exists());
    store.restore_nodes(&[NodeId(1)]).unwrap();
    assert_eq!(store.all_nodes().unwrap().1, [NodeId(1)]);
    assert!(store.list_nodes(0, 9, None).unwrap().1[0].locked);
    drop(store);

    std::fs::rename(folder.path().join("kept"), folder.path().join("key")).unwrap();
    assert!(open(folder.path()).node(NodeId(1)).unwrap().is_some());
}

#[test]
fn another_key_does_not_open_and_harms_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    store.add_nodes(&[node("one")]).unwrap();
    drop(store);
    let other = Arc::new(MemoryKey::holding([9; 32]));
    let store = Store::open(folder.path(), other).unwrap();
    assert!(matches!(store.node(NodeId(1)), Err(StoreError::Seal(SealError::Refused))));
    drop(store);
    assert!(open(folder.path()).node(NodeId(1)).unwrap().is_some());
}

#[test]
fn a_second_writer_is_told_who_holds_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let _store = open(folder.path());
    let second = Store::open(folder.path(), Arc::new(MemoryKey::default())).err().unwrap();
    assert!(second.to_string().contains(&std::process::id().to_string()), "{second}");
}

#[test]
fn settings_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    assert_eq!(store.settings().unwrap(), Settings::default());
    let changed = Settings { mixed_port: 1, ..Settings::default() };
    store.save_settings(&changed).unwrap();
    store.save_last_node(NodeId(4)).unwrap();
    drop(store);
    let store = open(folder.path());
    assert_eq!(store.settings().unwrap(), changed);
    assert_eq!(store.last_node().unwrap(), Some(NodeId(4)));
}
