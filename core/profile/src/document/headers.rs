//! What a subscription says about itself, in HTTP headers or in comments.

use serde::{Deserialize, Serialize};

use crate::node::Secret;
use crate::text::{base64_text, name, percent, some, trim};

/// Quota and expiry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserInfo {
    /// Bytes sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload: Option<u64>,
    /// Bytes received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub download: Option<u64>,
    /// Bytes allowed; 0 or absent for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// End, in seconds since 1970; 0 or absent for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expire: Option<u64>,
}

/// The headers of a subscription that Culvert understands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Headers {
    /// `profile-title`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// `profile-update-interval`, hours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_interval_hours: Option<u32>,
    /// `subscription-userinfo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_info: Option<UserInfo>,
    /// `support-url`, an `http(s)` or Telegram address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub support_url: Option<String>,
    /// `profile-web-page-url`, an `http(s)` address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub web_page_url: Option<Secret>,
    /// `announce`: a notice of the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub announce: Option<String>,
}

impl Headers {
    /// Takes one header, from HTTP or from a comment. Says whether it is one that counts here.
    /// A value that makes no sense is ignored; the first of repeated headers stays.
    pub fn read(&mut self, key: &str, value: &str) -> bool {
        let value = trim(value);
        match trim(key).to_ascii_lowercase().as_str() {
            "profile-title" => keep(&mut self.title, some(name(&text(value)))),
            "content-disposition" => keep(&mut self.title, file_name(value)),
            "profile-update-interval" => {
                let hours = value.parse::<f64>().ok().filter(|hours| (0.1..=10_000.0).contains(hours));
                // In range: a float between 1 and 10,000 after the rounding.
                keep(&mut self.update_interval_hours, hours.map(|hours| hours.round().max(1.0) as u32));
            }
            "subscription-userinfo" => keep(&mut self.user_info, user_info(value)),
            "support-url" => {
                keep(&mut self.support_url, some(value).filter(|url| is_web(url) || url.starts_with("tg://")));
            }
            "profile-web-page-url" => {
                keep(&mut self.web_page_url, some(value).filter(|url| is_web(url)).map(Secret::new));
            }
            "announce" => keep(&mut self.announce, some(name(&text(value)))),
            _ => return false,
        }
        true
    }

    /// Fills what is absent here from `other`.
    pub fn or(self, other: Self) -> Self {
        Self {
            title: self.title.or(other.title),
            update_interval_hours: self.update_interval_hours.or(other.update_interval_hours),
            user_info: self.user_info.or(other.user_info),
            support_url: self.support_url.or(other.support_url),
            web_page_url: self.web_page_url.or(other.web_page_url),
            announce: self.announce.or(other.announce),
        }
    }

    /// Reads a comment line without its comment sign.
    pub(super) fn read_comment(&mut self, comment: &str) -> bool {
        comment.split_once(':').is_some_and(|(key, value)| self.read(key, value))
    }
}

fn keep<T>(slot: &mut Option<T>, value: Option<T>) {
    if slot.is_none() {
        *slot = value;
    }
}

fn is_web(url: &str) -> bool {
    let lower = url.get(..8).unwrap_or(url).to_ascii_lowercase();
    lower.starts_with("http://") || lower.starts_with("https://")
}

/// A text, perhaps behind `base64:`.
fn text(value: &str) -> String {
    let decoded = value.strip_prefix("base64:").and_then(|inner| base64_text(inner).ok());
    decoded.unwrap_or_else(|| value.to_owned())
}

/// The file name of a `Content-Disposition`, without its ending.
fn file_name(value: &str) -> Option<String> {
    let plain = |part: &str| part.strip_prefix("filename=").map(|name| name.trim_matches('"').to_owned());
    let parts = || value.split(';').map(trim);
    let found = parts()
        .find_map(|part| Some(percent(part.strip_prefix("filename*=")?.rsplit("''").next()?)))
        .or_else(|| parts().find_map(plain))?;
    let stem = [".yaml", ".yml", ".txt", ".json"].iter().find_map(|end| found.strip_suffix(end)).unwrap_or(&found);
    some(name(stem))
}

fn user_info(value: &str) -> Option<UserInfo> {
    let mut info = UserInfo::default();
    let mut any = false;
    for (key, number) in value.split([';', ',']).filter_map(|item| item.split_once('=')) {
        let number = trim(number);
        let whole = number.split('.').next().unwrap_or_default().parse::<u64>().ok();
        let slot = match trim(key).to_ascii_lowercase().as_str() {
            "upload" => &mut info.upload,
            "download" => &mut info.download,
            "total" => &mut info.total,
            "expire" => &mut info.expire,
            _ => continue,
        };
        *slot = whole;
        any |= whole.is_some();
    }
    any.then_some(info)
}
