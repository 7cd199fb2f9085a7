//! Settings.

use crate::types::{Mode, wire};

wire! {
    /// Which colours.
    #[derive(Copy, Eq, Default)]
    #[serde(rename_all = "snake_case")]
    pub enum Theme {
        /// As the system.
        #[default]
        System,
        /// Light.
        Light,
        /// Dark.
        Dark,
    }

    /// Height of rows.
    #[derive(Copy, Eq, Default)]
    #[serde(rename_all = "snake_case")]
    pub enum Density {
        /// 30 px.
        Compact,
        /// 36 px.
        #[default]
        Normal,
        /// 44 px.
        Relaxed,
    }

    /// All settings.
    #[derive(Eq)]
    #[serde(default)]
    pub struct Settings {
        /// Port of the local proxy; the next free one when it is taken.
        pub mixed_port: u16,
        /// A new random port at each start of the local proxy instead.
        pub random_port: bool,
        /// Refuse programs of other users of this computer.
        pub only_my_programs: bool,
        /// Set the system's proxy on connecting.
        pub system_proxy: bool,
        /// How flows are decided.
        pub mode: Mode,
        /// Page that is fetched to verify a node and to measure latency (http or https).
        pub test_url: String,
        /// Status that the page must answer with; 0 for any of 200 to 399.
        pub test_status: u16,
        /// Time for one node's latency test, ms.
        pub test_timeout_ms: u32,
        /// Nodes tested at once.
        pub test_concurrency: u16,
        /// File that is downloaded to measure speed (http or https).
        pub speed_url: String,
        /// Time of one speed test, ms.
        pub speed_duration_ms: u32,
        /// Bytes after which a speed test ends.
        pub speed_limit_bytes: u64,
        /// Language of the app as a BCP 47 tag; empty for the system's.
        pub language: String,
        /// Colours.
        pub theme: Theme,
        /// Height of rows.
        pub density: Density,
    }

    /// What to change; absent means unchanged.
    #[derive(Default, Eq)]
    #[serde(default, deny_unknown_fields)]
    #[ts(optional_fields)]
    pub struct SettingsPatch {
        /// See [`Settings`].
        #[serde(skip_serializing_if = "Option::is_none")]
        pub mixed_port: Option<u16>,
        /// See [`Settings`].
        #[serde(skip_serializing_if = "Option::is_none")]
        pub random_port: Option<bool>,
        /// See [`Settings`].
        #[serde(skip_serializing_if = "Option::is_none")]
        pub only_my_programs: Option<bool>,
        /// See [`Settings`].
        #[serde(skip_serializing_if = "Option::is_none")]
        pub system_proxy: Option<bool>,
        /// See [`Settings`].
        #[serde(skip_serializing_if = "Option::is_none")]
        pub mode: Option<Mode>,
        /// See [`Settings`].
        #[serde(skip_serializing_if = "Option::is_none")]
        pub test_url: Option<String>,
        /// See [`Settings`].
        #[serde(skip_serializing_if = "Option::is_none")]
        pub test_status: Option<u16>,
        /// See [`Settings`].
        #[serde(skip_serializing_if = "Option::is_none")]
        pub test_timeout_ms: Option<u32>,
        /// See [`Settings`].
        #[serde(skip_serializing_if = "Option::is_none")]
        pub test_concurrency: Option<u16>,
        /// See [`Settings`].
        #[serde(skip_serializing_if = "Option::is_none")]
        pub speed_url: Option<String>,
        /// See [`Settings`].
        #[serde(skip_serializing_if = "Option::is_none")]
        pub speed_duration_ms: Option<u32>,
        /// See [`Settings`].
        #[serde(skip_serializing_if = "Option::is_none")]
        pub speed_limit_bytes: Option<u64>,
        /// See [`Settings`].
        #[serde(skip_serializing_if = "Option::is_none")]
        pub language: Option<String>,
        /// See [`Settings`].
        #[serde(skip_serializing_if = "Option::is_none")]
        pub theme: Option<Theme>,
        /// See [`Settings`].
        #[serde(skip_serializing_if = "Option::is_none")]
        pub density: Option<Density>,
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mixed_port: 2080,
            random_port: false,
            only_my_programs: true,
            system_proxy: false,
            mode: Mode::Rule,
            test_url: "http://www.gstatic.com/generate_204".to_owned(),
            test_status: 0,
            test_timeout_ms: 5_000,
            test_concurrency: 50,
            speed_url: "https://speed.cloudflare.com/__down?bytes=200000000".to_owned(),
            speed_duration_ms: 8_000,
            speed_limit_bytes: 500_000_000,
            language: String::new(),
            theme: Theme::System,
            density: Density::Normal,
        }
    }
}
