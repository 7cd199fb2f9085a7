//! The app's TypeScript, generated from the types of this crate.

use std::any::TypeId;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;

use ts_rs::{Config, TS, TypeVisitor};

use crate::error::RpcError;
use crate::event::Numbered;
use crate::methods::{self, Method, StateSubscribe};

struct Collector<'a> {
    config: &'a Config,
    seen: HashSet<TypeId>,
    declarations: BTreeMap<String, String>,
}

impl TypeVisitor for Collector<'_> {
    fn visit<T: TS + 'static + ?Sized>(&mut self) {
        if !self.seen.insert(TypeId::of::<T>()) {
            return;
        }
        T::visit_dependencies(self);
        T::visit_generics(self);
        if T::output_path().is_some() {
            let docs = T::docs().unwrap_or_default();
            let declaration = format!("{docs}export {}\n", T::decl(self.config));
            self.declarations.insert(T::ident(self.config), declaration);
        }
    }
}

/// The whole file `ui/src/lib/ipc/bindings/index.ts`.
pub fn typescript() -> String {
    let config = Config::new().with_large_int("number");
    let mut collector = Collector { config: &config, seen: HashSet::new(), declarations: BTreeMap::new() };
    methods::visit_types(&mut collector);
    collector.visit::<<StateSubscribe as Method>::Params>();
    collector.visit::<<StateSubscribe as Method>::Result>();
    collector.visit::<Numbered>();
    collector.visit::<RpcError>();

    let mut text = String::from(
        "// Generated from core/ipc by `cargo run -p culvert-ipc --bin culvert-bindings`. Not to be edited.\n\n",
    );
    let _ = writeln!(text, "export const PROTOCOL_VERSION = {};\n", crate::PROTOCOL_VERSION);
    for declaration in collector.declarations.values() {
        text.push_str(declaration);
        text.push('\n');
    }
    text.push_str("/** Every method: what it takes and what it answers. */\nexport interface Methods {\n");
    let subscribe = (
        StateSubscribe::NAME,
        <StateSubscribe as Method>::Params::name(&config),
        <StateSubscribe as Method>::Result::name(&config),
    );
    for (name, params, result) in methods::signatures(&config).into_iter().chain([subscribe]) {
        let _ = writeln!(text, "  \"{name}\": {{ params: {params}; result: {result} }};");
    }
    text.push_str("}\n");
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn the_generated_typescript_is_fresh() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ui/src/lib/ipc/bindings/index.ts");
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == super::typescript(),
            "{} is stale: run `cargo run -p culvert-ipc --bin culvert-bindings`",
            path.display()
        );
    }

    #[test]
    fn numbers_are_numbers_in_typescript() {
        let text = super::typescript();
        assert!(!text.contains("bigint"));
        assert!(text.contains("\"nodes.list\": { params: NodesListParams; result: NodesPage };"));
    }
}
