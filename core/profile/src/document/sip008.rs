//! SIP008, the delivery format of Shadowsocks.

use super::Builder;
use crate::error::ParseError;
use crate::fields;
use crate::json::Fields;
use crate::link::{plugin_name, plugin_options};
use crate::node::{Node, Plugin, Protocol, Secret, Shadowsocks};
use crate::text::{name, shown};

/// Every server of the list.
pub(super) fn read(servers: Vec<Fields>, out: &mut Builder) {
    for mut server in servers {
        let remarks = name(&server.take(&["remarks"]));
        let what = format!("server {}", shown(&remarks));
        out.entry(None, what, node(remarks, server));
    }
}

fn node(name: String, mut f: Fields) -> Result<Node, ParseError> {
    let address = fields::host(&f.take(&["server"]))?;
    let port = fields::port(&f.take(&["server_port"]))?;
    let method = fields::shadowsocks_method(&f.take(&["method"]));
    let password = f.take(&["password"]);
    fields::shadowsocks_password(&method, &password)?;
    let (plugin, options) = (f.take(&["plugin"]), f.take(&["plugin_opts"]));
    let plugin = (!plugin.is_empty()).then(|| plugin_from(&plugin, &options));
    let shadowsocks = Shadowsocks { method, password: Secret::new(password), plugin, udp_over_tcp: false };
    Ok(Node::new(name, address, port, Protocol::Shadowsocks(shadowsocks)))
}

/// A plugin whose options come as one text.
pub(super) fn plugin_from(name: &str, options: &str) -> Plugin {
    let name = plugin_name(name);
    let (name, opts) =
        if options.is_empty() { (name, Default::default()) } else { plugin_options(&format!("{name};{options}")) };
    Plugin { name, opts }
}
