//! Writes the app's TypeScript types.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ui/src/lib/ipc/bindings/index.ts");
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, culvert_ipc::bindings::typescript())
}
