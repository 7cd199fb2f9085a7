use std::cell::RefCell;

use super::*;

enum State {
    Open(Option<Vec<u8>>),
    Locked,
    Absent,
    Forgetful,
}

struct Fake(RefCell<State>);

impl Fake {
    fn new(state: State) -> Self {
        Self(RefCell::new(state))
    }
}

impl Keeper for Fake {
    fn read(&self) -> Keyring {
        match &*self.0.borrow() {
            State::Open(Some(secret)) => Keyring::Stored(Zeroizing::new(secret.clone())),
            State::Open(None) | State::Forgetful => Keyring::Empty,
            State::Locked => Keyring::Locked("locked".into()),
            State::Absent => Keyring::Absent("no bus".into()),
        }
    }

    fn store(&self, secret: &[u8]) -> Result<(), String> {
        let mut state = self.0.borrow_mut();
        match &mut *state {
            State::Open(stored) => *stored = Some(secret.to_vec()),
            State::Forgetful => {}
            State::Locked | State::Absent => return Err("no".into()),
        }
        Ok(())
    }
}

fn never() -> [u8; KEY_BYTES] {
    panic!("no key may be made")
}

#[test]
fn the_first_key_goes_to_the_keyring_and_is_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    let keyring = Fake::new(State::Open(None));
    let made = obtain(&keyring, &file, false, || [7; KEY_BYTES]).unwrap();
    assert!(made.fresh && made.place == KeyPlace::Keyring);
    let found = obtain(&keyring, &file, true, never).unwrap();
    assert!(!found.fresh && *found.bytes == [7; KEY_BYTES]);
    assert!(!file.exists());
    assert!(!format!("{found:?}").contains('7'));
}

#[test]
fn no_key_is_made_while_sealed_rows_exist() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    assert!(matches!(obtain(&Fake::new(State::Open(None)), &file, true, never), Err(SecretsError::Lost(_))));
    assert!(matches!(obtain(&Fake::new(State::Locked), &file, true, never), Err(SecretsError::Locked(_))));
    assert!(matches!(obtain(&Fake::new(State::Absent), &file, true, never), Err(SecretsError::Absent(_))));
    assert!(matches!(
        obtain(&Fake::new(State::Open(Some(vec![1, 2]))), &file, false, never),
        Err(SecretsError::NotAKey(_))
    ));
    // Locked is not absent: no weaker place is chosen behind the person's back.
    assert!(matches!(obtain(&Fake::new(State::Locked), &file, false, never), Err(SecretsError::Locked(_))));
    assert!(!file.exists());
}

#[test]
fn a_keyring_that_keeps_nothing_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let result = obtain(&Fake::new(State::Forgetful), &folder.path().join("key"), false, || [1; KEY_BYTES]);
    assert!(matches!(result, Err(SecretsError::NotKept(_))));
}

#[cfg(unix)]
#[test]
fn without_a_keyring_a_file_for_this_user_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    let made = obtain(&Fake::new(State::Absent), &file, false, || [0xab; KEY_BYTES]).unwrap();
    assert!(made.fresh && made.place == KeyPlace::File);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing left beside it");
    // A keyring that appears later doesn't hide the key in use.
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let found = obtain(&Fake::new(State::Open(None)), &file, true, never).unwrap();
    assert!(*found.bytes == [0xab; KEY_BYTES] && found.place == KeyPlace::File);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    // A cut file is an error, not a reason to make a new key.
    std::fs::write(&file, "abab").unwrap();
    assert!(matches!(obtain(&Fake::new(State::Absent), &file, true, never), Err(SecretsError::NotAKey(_))));
    std::fs::write(&file, "zz".repeat(KEY_BYTES)).unwrap();
    assert!(matches!(obtain(&Fake::new(State::Absent), &file, false, never), Err(SecretsError::NotAKey(_))));
    std::fs::write(&file, "é".repeat(KEY_BYTES)).unwrap();
    assert!(matches!(obtain(&Fake::new(State::Absent), &file, false, never), Err(SecretsError::NotAKey(_))));
}
