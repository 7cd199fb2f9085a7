//! Parameters, results and parts of the state. Times are Unix time in milliseconds, durations and
//! sizes carry their unit in the name, numbers fit JavaScript's 53 bits.

mod connection;
mod flow;
mod import;
mod node;
mod settings;
mod system;
mod test;

pub use connection::*;
pub use flow::*;
pub use import::*;
pub use node::*;
pub use settings::*;
pub use system::*;
pub use test::*;

/// Derives what every type of the interface has.
macro_rules! wire {
    ($($item:item)*) => {
        $(#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, ts_rs::TS)] $item)*
    };
}
pub(crate) use wire;

wire! {
    /// No parameters, or nothing to say in an answer.
    #[derive(Copy, Default, Eq)]
    pub struct Nothing {}
}
