// A headless Chromium over the mock build, served from this process.
import { existsSync } from "node:fs";
import { mkdir, readFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join, normalize } from "node:path";

import { chromium, type Browser, type Page } from "playwright-core";

const ROOT = join(import.meta.dirname, "../dist-mock");
export const SHOTS = process.env["CULVERT_ARTEFACTS"] ?? join(import.meta.dirname, "../../artefacts/ui");
const TYPES: Record<string, string> = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".woff2": "font/woff2", ".svg": "image/svg+xml" };
/** The policy of the real app but for Tauri's own scheme: what it forbids fails here as well. */
const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'";

export interface Fixture {
  browser: Browser;
  origin: string;
  close(): Promise<void>;
}

/** The browser, or null when this machine has none. */
export async function openFixture(): Promise<Fixture | null> {
  const executablePath = [process.env["CULVERT_CHROMIUM"], "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((path) => path && existsSync(path));
  if (!executablePath) {
    if (process.env["CULVERT_REQUIRE_PEERS"] === "1") throw new Error("no Chromium found (CULVERT_CHROMIUM names one)");
    console.log("skipped: no Chromium found (CULVERT_CHROMIUM names one)");
    return null;
  }
  await mkdir(SHOTS, { recursive: true });
  const server: Server = createServer((request, response) => {
    const path = new URL(request.url ?? "/", "http://localhost").pathname;
    const file = join(ROOT, normalize(path === "/" ? "/index.html" : path));
    readFile(file).then(
      (content) => response.writeHead(200, { "content-type": TYPES[extname(file)] ?? "application/octet-stream", "content-security-policy": POLICY }).end(content),
      () => response.writeHead(404).end(),
    );
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const { port } = server.address() as AddressInfo;
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--font-render-hinting=none"] });
  return {
    browser,
    origin: `http://127.0.0.1:${port}`,
    async close() {
      await browser.close();
      server.close();
    },
  };
}

/** Opens the app; console errors and violations of the policy end up in `problems`. */
export async function openApp(fixture: Fixture, query: string, size = { width: 1180, height: 760 }): Promise<{ page: Page; problems: string[] }> {
  const page = await fixture.browser.newPage({ viewport: size, reducedMotion: "reduce", locale: "en-GB" });
  const problems: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error") problems.push(message.text());
  });
  page.on("pageerror", (error) => problems.push(String(error)));
  await page.goto(`${fixture.origin}/?${query}`);
  await page.waitForSelector("header.stream");
  await page.evaluate(() => document.fonts.ready);
  return { page, problems };
}
