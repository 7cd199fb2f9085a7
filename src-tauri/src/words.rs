//! The few words of the tray. The window has its own catalogue.

/// A language of the tray.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Language {
    /// English.
    #[default]
    English,
    /// Simplified Chinese.
    Chinese,
}

impl Language {
    /// The language that fits the BCP 47 tag or locale name `tag`.
    pub fn of(tag: &str) -> Self {
        if tag.to_ascii_lowercase().starts_with("zh") { Self::Chinese } else { Self::English }
    }
}

/// Everything that the tray says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each field is its own sentence below")]
pub struct Words {
    pub connected_through: &'static str,
    pub connected_directly: &'static str,
    pub connecting: &'static str,
    pub failed: &'static str,
    pub degraded: &'static str,
    pub off: &'static str,
    pub no_core: &'static str,
    pub connect: &'static str,
    pub cancel: &'static str,
    pub disconnect: &'static str,
    pub system_proxy: &'static str,
    pub nodes: &'static str,
    pub more_nodes: &'static str,
    pub test_all: &'static str,
    pub open: &'static str,
    pub quit: &'static str,
}

const ENGLISH: Words = Words {
    connected_through: "Connected through",
    connected_directly: "Connected directly",
    connecting: "Connecting",
    failed: "The node does not work",
    degraded: "Connected, but slow",
    off: "Not connected",
    no_core: "The engine is starting",
    connect: "Connect",
    cancel: "Cancel",
    disconnect: "Disconnect",
    system_proxy: "System proxy",
    nodes: "Node",
    more_nodes: "More in Culvert",
    test_all: "Test all nodes",
    open: "Open Culvert",
    quit: "Quit and put settings back",
};

const CHINESE: Words = Words {
    connected_through: "已连接，经由",
    connected_directly: "已直连",
    connecting: "正在连接",
    failed: "节点不可用",
    degraded: "已连接，但较慢",
    off: "未连接",
    no_core: "正在启动引擎",
    connect: "连接",
    cancel: "取消",
    disconnect: "断开",
    system_proxy: "系统代理",
    nodes: "节点",
    more_nodes: "在 Culvert 中查看更多",
    test_all: "测试全部节点",
    open: "打开 Culvert",
    quit: "退出并恢复设置",
};

impl Words {
    /// The words of `language`.
    pub const fn of(language: Language) -> &'static Self {
        match language {
            Language::English => &ENGLISH,
            Language::Chinese => &CHINESE,
        }
    }
}
