//! Settings: checked before they are kept.

use culvert_ipc::types::{Settings, SettingsPatch};
use culvert_ipc::{ErrorCode, Event, RpcError};

use super::Engine;
use crate::fetch::Page;

/// The most nodes that are tested at once.
pub(crate) const MAX_CONCURRENCY: u16 = 200;

impl Engine {
    pub(super) async fn patch_settings(&self, patch: SettingsPatch) -> Result<Settings, RpcError> {
        let changed = apply(self.settings.lock().clone(), patch);
        check(&changed)?;
        self.adopt(changed).await
    }

    pub(super) async fn reset_settings(&self) -> Result<Settings, RpcError> {
        self.adopt(Settings::default()).await
    }

    async fn adopt(&self, settings: Settings) -> Result<Settings, RpcError> {
        let mode_changed = {
            let mut current = self.settings.lock();
            let changed = current.mode != settings.mode;
            current.clone_from(&settings);
            changed
        };
        if mode_changed {
            self.set_mode(settings.mode).await?;
        } else {
            self.keep_settings(settings.clone()).await?;
        }
        Ok(settings)
    }

    pub(super) async fn keep_settings(&self, settings: Settings) -> Result<(), RpcError> {
        let kept = settings.clone();
        self.stored(move |store| store.save_settings(&kept)).await?;
        self.publisher.publish(&Event::Settings(settings));
        Ok(())
    }
}

fn apply(old: Settings, patch: SettingsPatch) -> Settings {
    Settings {
        mixed_port: patch.mixed_port.unwrap_or(old.mixed_port),
        random_port: patch.random_port.unwrap_or(old.random_port),
        only_my_programs: patch.only_my_programs.unwrap_or(old.only_my_programs),
        system_proxy: patch.system_proxy.unwrap_or(old.system_proxy),
        mode: patch.mode.unwrap_or(old.mode),
        test_url: patch.test_url.unwrap_or(old.test_url),
        test_status: patch.test_status.unwrap_or(old.test_status),
        test_timeout_ms: patch.test_timeout_ms.unwrap_or(old.test_timeout_ms),
        test_concurrency: patch.test_concurrency.unwrap_or(old.test_concurrency),
        speed_url: patch.speed_url.unwrap_or(old.speed_url),
        speed_duration_ms: patch.speed_duration_ms.unwrap_or(old.speed_duration_ms),
        speed_limit_bytes: patch.speed_limit_bytes.unwrap_or(old.speed_limit_bytes),
        language: patch.language.unwrap_or(old.language),
        theme: patch.theme.unwrap_or(old.theme),
        density: patch.density.unwrap_or(old.density),
    }
}

fn check(settings: &Settings) -> Result<(), RpcError> {
    let refuse = |setting: &str, reason: String| {
        Err(RpcError::new(ErrorCode::InvalidSetting, format!("{setting}: {reason}"))
            .with("setting", setting)
            .with("reason", reason))
    };
    if settings.mixed_port == 0 {
        return refuse("mixed_port", "a port is a number from 1 to 65535".to_owned());
    }
    for (name, url) in [("test_url", &settings.test_url), ("speed_url", &settings.speed_url)] {
        if url.len() > 2_048 {
            return refuse(name, "the address is too long".to_owned());
        }
        if let Err(reason) = Page::parse(url) {
            return refuse(name, reason);
        }
    }
    if settings.test_status != 0 && !(100..=599).contains(&settings.test_status) {
        return refuse("test_status", "a status is a number from 100 to 599, or 0 for any".to_owned());
    }
    if !(500..=60_000).contains(&settings.test_timeout_ms) {
        return refuse("test_timeout_ms", "from 500 to 60000".to_owned());
    }
    if !(1..=MAX_CONCURRENCY).contains(&settings.test_concurrency) {
        return refuse("test_concurrency", format!("from 1 to {MAX_CONCURRENCY}"));
    }
    if !(1_000..=60_000).contains(&settings.speed_duration_ms) {
        return refuse("speed_duration_ms", "from 1000 to 60000".to_owned());
    }
    if settings.speed_limit_bytes == 0 || settings.speed_limit_bytes > 1 << 50 {
        return refuse("speed_limit_bytes", "must be above 0".to_owned());
    }
    if settings.language.len() > 35 {
        return refuse("language", "this is no language tag".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_values_are_refused_by_name() {
        let good = Settings::default();
        check(&good).unwrap();
        let refused = |patch: SettingsPatch| check(&apply(good.clone(), patch)).unwrap_err().params["setting"].clone();
        assert_eq!(refused(SettingsPatch { mixed_port: Some(0), ..SettingsPatch::default() }), "mixed_port");
        let patch = SettingsPatch { test_url: Some("file:///x".into()), ..SettingsPatch::default() };
        assert_eq!(refused(patch), "test_url");
        assert_eq!(
            refused(SettingsPatch { test_concurrency: Some(0), ..SettingsPatch::default() }),
            "test_concurrency"
        );
        assert_eq!(apply(good.clone(), SettingsPatch::default()), good);
    }
}
