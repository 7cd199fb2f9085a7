//! What `networksetup` prints.

use std::collections::BTreeMap;

/// The names of the network services that are switched on.
pub(crate) fn services(text: &str) -> Vec<String> {
    // The first line explains that an asterisk marks a service that is off.
    text.lines()
        .skip(1)
        .map(str::trim_end)
        .filter(|line| !line.is_empty() && !line.starts_with('*'))
        .map(String::from)
        .collect()
}

/// `Key: value` lines; `(null)` is how an unset value is printed.
pub(crate) fn fields(text: &str) -> BTreeMap<&str, &str> {
    text.lines()
        .filter_map(|line| {
            let (key, value) = line.split_once(':')?;
            let value = value.trim();
            Some((key.trim(), if value == "(null)" { "" } else { value }))
        })
        .collect()
}

/// The list of destinations to bypass, one a line; a sentence says that there are none.
pub(crate) fn domains(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.contains(' ')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_understood() {
        let text =
            "An asterisk (*) denotes that a network service is disabled.\nWi-Fi\n*Thunderbolt Bridge\nUSB 10/100 LAN\n";
        assert_eq!(services(text), ["Wi-Fi", "USB 10/100 LAN"]);
        let web = fields("Enabled: Yes\nServer: 127.0.0.1\nPort: 2080\nAuthenticated Proxy Enabled: 0\n");
        assert_eq!((web["Enabled"], web["Server"], web["Port"]), ("Yes", "127.0.0.1", "2080"));
        let auto = fields("URL: (null)\nEnabled: No\n");
        assert_eq!(auto["URL"], "");
        assert_eq!(fields("URL: http://corp:80/pac\n")["URL"], "http://corp:80/pac");
        assert!(domains("There aren't any bypass domains set on Wi-Fi.\n").is_empty());
        assert_eq!(domains("*.local\n169.254/16\n"), ["*.local", "169.254/16"]);
    }
}
