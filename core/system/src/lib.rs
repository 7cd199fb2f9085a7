//! System proxy and its guard, process lookup, secrets, autostart, network changes.
