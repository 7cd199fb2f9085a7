//! `ctl`: one call to the running service, or its events as they come.

use std::path::PathBuf;

use anyhow::Context;
use culvert_ipc::methods::{StateSubscribe, SystemHello};
use culvert_ipc::types::{HelloParams, SubscribeParams};
use culvert_ipc::{Client, ClientError, PROTOCOL_VERSION, Topic};
use culvert_system::directories::Directories;
use serde_json::Value;

use crate::cli::CtlArguments;
use crate::input::BadUsage;
use crate::{output, place};

const ALL: [Topic; 6] = [Topic::State, Topic::Nodes, Topic::Traffic, Topic::Connections, Topic::Tests, Topic::Logs];

pub(crate) async fn run(arguments: CtlArguments, json: bool) -> anyhow::Result<bool> {
    let path = match arguments.socket {
        Some(path) => path,
        None => place::socket(&Directories::find()?),
    };
    if arguments.method == "watch" {
        return watch(path, arguments.params.as_deref(), arguments.count).await;
    }
    let params: Value = match &arguments.params {
        Some(text) => {
            serde_json::from_str(text).map_err(|error| BadUsage(format!("the parameters are no JSON: {error}")))?
        }
        None => Value::Null,
    };
    let (client, _events) = connect(&path).await?;
    match client.call_raw(&arguments.method, params).await {
        Ok(result) if json => output::json(&result)?,
        Ok(result) => output::line(&serde_json::to_string_pretty(&result)?)?,
        Err(ClientError::Refused(error)) => {
            if json {
                output::json(&error)?;
            }
            let code = serde_json::to_value(error.code)?;
            output::note(&format!("culvert-core: {} ({})", error.message, code.as_str().unwrap_or_default()));
            return Ok(false);
        }
        Err(error) => return Err(error.into()),
    }
    Ok(true)
}

async fn connect(
    path: &std::path::Path,
) -> anyhow::Result<(Client, tokio::sync::mpsc::Receiver<culvert_ipc::Numbered>)> {
    let (client, events) = Client::connect(path)
        .await
        .with_context(|| format!("no service answers at {} (start it with `culvert-core serve`)", path.display()))?;
    let hello = client
        .call::<SystemHello>(HelloParams {
            protocol_version: PROTOCOL_VERSION,
            client: format!("ctl {}", env!("CARGO_PKG_VERSION")),
        })
        .await?;
    if !hello.compatible {
        anyhow::bail!(
            "the service speaks version {} of the interface, this program {PROTOCOL_VERSION}; end it with \
             system.shutdown and start the one that belongs to this program",
            hello.protocol_version
        );
    }
    Ok((client, events))
}

async fn watch(path: PathBuf, wanted: Option<&str>, count: Option<u64>) -> anyhow::Result<bool> {
    let topic = wanted.and_then(|word| serde_json::from_value::<Topic>(Value::String(word.to_owned())).ok());
    let event_name = if topic.is_none() { wanted } else { None };
    if event_name.is_some_and(|name| !name.contains('.')) {
        return Err(
            BadUsage(format!("{:?} is neither a topic nor the name of an event", wanted.unwrap_or_default())).into()
        );
    }
    let (client, mut events) = connect(&path).await?;
    let topics = topic.map_or_else(|| ALL.to_vec(), |topic| vec![topic]);
    client.call::<StateSubscribe>(SubscribeParams { topics }).await?;
    let mut left = count.unwrap_or(u64::MAX);
    while left > 0 {
        let event = tokio::select! {
            event = events.recv() => event,
            () = super::signal::end() => return Ok(true),
        };
        let Some(event) = event else {
            output::note("the service ended");
            return Ok(false);
        };
        let value = serde_json::to_value(&event)?;
        let name = value.pointer("/event/type").and_then(Value::as_str);
        if event_name.is_none() || name == event_name {
            output::json(&value)?;
            left -= 1;
        }
    }
    Ok(true)
}
