//! Gets the sealing key in a session of its own, for tests: `system_secrets_actor KEYFILE SEALED`, where SEALED is
//! `yes` when sealed rows are said to exist. Prints where the key lives, whether it is fresh, and its first byte.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use culvert_system::secrets::{KEY_BYTES, OsKeyring, obtain};

fn main() {
    let mut arguments = std::env::args_os().skip(1);
    let file = PathBuf::from(arguments.next().unwrap_or_default());
    let sealed = arguments.next().is_some_and(|word| word == "yes");
    let keyring = OsKeyring::new("culvert-test", "sealing-key", Duration::from_secs(10));
    let answer = match obtain(&keyring, &file, sealed, || [0x5a; KEY_BYTES]) {
        Ok(key) => format!("{key:?} {}", key.bytes[0]),
        Err(error) => format!("{error:?}"),
    };
    // The reader is the test; without it nobody misses the line.
    let _ = writeln!(std::io::stdout(), "{answer}");
}
