//! The privileged helper's messages and their bounded codec.
