// The real window through WebDriver: import the demo server's links, test, connect, fetch through
// the proxy, disconnect, quit. Screenshots go to artefacts/app.
//
//   CULVERT_APP=target/debug/culvert CULVERT_CORE=target/debug/culvert-core node tests/app/run.mjs
//
// (those are the defaults; the app must be built with the feature custom-protocol.)
// Runs itself under a virtual display and a session bus of its own; needs WebKitWebDriver, xvfb-run
// and dbus-run-session, and skips without them unless CULVERT_REQUIRE_PEERS=1.
import { spawn, spawnSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, request } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "../..");
const app = resolve(root, process.env.CULVERT_APP ?? "target/debug/culvert");
const core = resolve(root, process.env.CULVERT_CORE ?? "target/debug/culvert-core");
const shots = process.env.CULVERT_ARTEFACTS ?? join(root, "artefacts/app");
const LIMIT_MS = 30_000;

if (process.env.CULVERT_APP_TEST !== "inside") {
  const missing = ["WebKitWebDriver", "xvfb-run", "dbus-run-session"].filter((tool) => spawnSync("which", [tool]).status !== 0);
  for (const file of [app, core]) if (!existsSync(file)) missing.push(file);
  if (missing.length > 0) {
    console.log(`skipped: ${missing.join(", ")} not found`);
    process.exit(process.env.CULVERT_REQUIRE_PEERS === "1" ? 1 : 0);
  }
  const home = mkdtempSync(join(tmpdir(), "culvert-app-"));
  mkdirSync(join(home, "run"), { mode: 0o700 });
  const env = {
    PATH: process.env.PATH,
    HOME: home,
    XDG_RUNTIME_DIR: join(home, "run"),
    LANG: process.env.LANG ?? "C.UTF-8",
    CULVERT_APP_TEST: "inside",
    CULVERT_APP: app,
    CULVERT_CORE: core,
    CULVERT_ARTEFACTS: shots,
    TAURI_AUTOMATION: "true",
    TAURI_WEBVIEW_AUTOMATION: "true",
  };
  // A desktop's keyring is open once its person has logged in; without that it would ask, and nobody answers here.
  const session = 'command -v gnome-keyring-daemon >/dev/null && printf test | gnome-keyring-daemon --unlock --components=secrets >/dev/null; exec "$@"';
  const program = ["sh", "-c", session, "sh", process.execPath, fileURLToPath(import.meta.url)];
  const inner = ["-a", "-s", "-screen 0 1280x860x24", "dbus-run-session", "--", ...program];
  const { status } = spawnSync("xvfb-run", inner, { env, stdio: "inherit", cwd: root });
  rmSync(home, { recursive: true, force: true });
  process.exit(status ?? 1);
}

mkdirSync(shots, { recursive: true });

/** Asks until `ask` answers with something, within the limit. */
async function until(what, ask, limit = LIMIT_MS) {
  const end = Date.now() + limit;
  for (;;) {
    const found = await ask();
    if (found) return found;
    if (Date.now() > end) throw new Error(`${what}: not within ${limit} ms`);
    await new Promise((again) => setTimeout(again, 100));
  }
}

const origin = createServer((asked, answer) => {
  if (asked.url === "/data") answer.end(data);
  else answer.writeHead(204).end();
});
const data = randomBytes(4 * 1024 * 1024);
await new Promise((listening) => origin.listen(0, "127.0.0.1", listening));
const page = `http://127.0.0.1:${origin.address().port}`;

// A free port for the driver: taken and given back at once.
const port = await new Promise((free) => {
  const probe = createServer().listen(0, "127.0.0.1", () => {
    const { port: found } = probe.address();
    probe.close(() => free(found));
  });
});
const driver = spawn("WebKitWebDriver", [`--port=${port}`], { stdio: ["ignore", "ignore", "inherit"] });
const base = `http://127.0.0.1:${port}`;

async function send(method, path, body) {
  const response = await fetch(base + path, { method, body: body && JSON.stringify(body) });
  const { value } = await response.json();
  if (!response.ok) throw new Error(`${method} ${path}: ${value?.error}: ${value?.message}`);
  return value;
}

let session;
const run = (script, ...args) => send("POST", `/session/${session}/execute/sync`, { script, args });
const has = (text) => run("return document.body.innerText.includes(arguments[0])", text);
async function click(text, role = "button") {
  await until(`“${text}” to click`, () =>
    run(
      `const found = [...document.querySelectorAll(arguments[1])].find((one) => !one.disabled && (one.innerText.trim() === arguments[0] || one.getAttribute("aria-label") === arguments[0]));
       found?.click(); return Boolean(found);`,
      text,
      role,
    ),
  );
}
async function shot(name) {
  writeFileSync(join(shots, `${name}.png`), Buffer.from(await send("GET", `/session/${session}/screenshot`), "base64"));
  console.log(`screenshot ${name}`);
}
function fetchThrough(proxy) {
  return new Promise((done, failed) => {
    const asked = request({ host: proxy.host, port: proxy.port, path: `${page}/data`, headers: { host: new URL(page).host } }, (answer) => {
      const hash = createHash("sha256");
      answer.on("data", (chunk) => hash.update(chunk)).on("end", () => done({ status: answer.statusCode, hash: hash.digest("hex") }));
    });
    asked.setTimeout(LIMIT_MS, () => asked.destroy(new Error("no answer through the proxy")));
    asked.on("error", failed).end();
  });
}

let failed = false;
try {
  await until("the driver", () => fetch(`${base}/status`).then((answer) => answer.ok, () => false));
  const started = Date.now();
  ({ sessionId: session } = await send("POST", "/session", {
    capabilities: { alwaysMatch: { "webkitgtk:browserOptions": { binary: app, args: [] } } },
  }));
  await until("the first page", () => has("Paste a link to begin"));
  console.log(`first page after ${Date.now() - started} ms (driver's start included)`);
  await shot("1-first-run");

  // The page to fetch is ours: nothing here leaves this machine.
  await click("Settings", "nav button");
  await until("the settings", () => run(`return Boolean(document.querySelector("#test_url"))`));
  await run(
    `const field = document.querySelector("#test_url"); field.focus(); field.value = arguments[0];
     field.dispatchEvent(new Event("input", { bubbles: true })); field.blur();`,
    `${page}/generate_204`,
  );
  await until("the test page to be kept", () => run(`return document.querySelector("#test_url").value.startsWith(arguments[0]) && !document.querySelector("[aria-invalid=true]")`, page));
  await click("Nodes", "nav button");

  await click("Start the demo");
  await until("the preview", () => run(`return document.querySelectorAll("dialog [role=row]").length > 1`));
  await shot("2-import");
  await until("the button that adds", () => run(`const add = document.querySelector("dialog [data-initial-focus]"); add?.click(); return Boolean(add)`));
  await until("the list", () => run(`return document.querySelectorAll("[data-node]").length > 0`));
  await until("results of the tests", () => run(`return !document.querySelector('[data-node] [title="Testing"]') && Boolean(document.querySelector('[data-node] [title="Working"]'))`));
  await shot("3-tested");

  // In rule mode an address of this computer goes out directly; the page is to come through the node.
  await click("Global", "[role=radio]");
  await click("Connect");
  await until("a page fetched through the node", () => has("Page fetched"));
  await shot("4-connected");
  const address = await run(`return (document.body.innerText.match(/Listens on (\\S+)/) || [])[1]`);
  const [host, proxyPort] = address.split(":");
  const got = await fetchThrough({ host, port: Number(proxyPort) });
  const wanted = createHash("sha256").update(data).digest("hex");
  if (got.status !== 200 || got.hash !== wanted) throw new Error(`fetched ${JSON.stringify(got)}, wanted ${wanted}`);
  console.log(`4 MiB through ${address}: equal`);
  await click("Connections", "nav button");
  await until("the flow through the node", () => run(`return [...document.querySelectorAll("[role=row]")].some((row) => row.innerText.includes("Demo "))`));
  await shot("5-connections");

  await click("Disconnect");
  await until("the strip to be off", () => has("Your own connection"));
  const refused = await fetchThrough({ host, port: Number(proxyPort) }).then(() => false, () => true);
  if (!refused) throw new Error("the port still answers after Disconnect");
  await click("Nodes", "nav button");
  await shot("6-disconnected");
} catch (error) {
  failed = true;
  console.error(error);
  if (session) await shot("failed").catch(() => undefined);
} finally {
  // Quit by the app's own way, so that the core ends with it.
  if (session) {
    await run(`window.dispatchEvent(new KeyboardEvent("keydown", { key: "q", ctrlKey: true, bubbles: true }))`).catch(() => undefined);
    const socket = join(process.env.XDG_RUNTIME_DIR, "culvert/core.sock");
    await until("the core to end", () => !existsSync(socket), 10_000).catch((error) => {
      failed = true;
      console.error(error);
    });
    await send("DELETE", `/session/${session}`).catch(() => undefined);
  }
  driver.kill();
  origin.close();
}
console.log(failed ? "FAILED" : "passed");
process.exit(failed ? 1 : 0);
