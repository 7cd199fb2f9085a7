// Every page and state over the mock core, in two languages and both themes: a screenshot each,
// an axe check each, and nothing on the console.
import { createRequire } from "node:module";
import { readFile } from "node:fs/promises";
import { join } from "node:path";

import type { AxeResults } from "axe-core";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { openApp, openFixture, SHOTS, type Fixture } from "./browser";

let fixture: Fixture | null = null;
let axeSource = "";

beforeAll(async () => {
  fixture = await openFixture();
  axeSource = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
});
afterAll(() => fixture?.close());

async function violations(page: Page): Promise<string[]> {
  await page.evaluate(axeSource);
  const found = await page.evaluate(async () => {
    const axe = (window as unknown as { axe: { run(root: Document, options: object): Promise<AxeResults> } }).axe;
    // The lists' scroll boxes are moved by the grid around them, which is the one stop for the keyboard.
    return axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"], rules: { "scrollable-region-focusable": { enabled: false } } });
  });
  return found.violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map((node) => `${node.target.join(" ")} ${node.any.map((one) => one.message).join("; ")}`).slice(0, 3).join(" | ")}`);
}

interface Scene {
  name: string;
  query: string;
  prepare?: (page: Page) => Promise<void>;
  size?: { width: number; height: number };
}

const LINES = [
  "vless://3f2a@tyo-9.example.com:443?security=tls#Tokyo 09",
  "vless://3f2a@tyo-9.example.com:443?security=tls#Tokyo 09 again",
  "vless://3f2a@tyo-11.example.com?security=reality",
  "ssr://x@hkg-1.example.com:443#Hong Kong old",
  "trojan://pw@fra-9.example.com:443?allowInsecure=1#Frankfurt 09",
].join("\n");

const scenes: Scene[] = [
  { name: "nodes", query: "state=connected" },
  { name: "nodes-off", query: "state=off" },
  { name: "nodes-connecting", query: "state=connecting" },
  { name: "nodes-degraded", query: "state=degraded" },
  { name: "nodes-failed-node", query: "state=failed-node" },
  { name: "nodes-failed-internet", query: "state=failed-internet" },
  { name: "nodes-failed-computer", query: "state=failed-computer" },
  { name: "nodes-narrow", query: "state=connected", size: { width: 900, height: 640 } },
  { name: "nodes-narrow-failed", query: "state=failed-node", size: { width: 900, height: 640 } },
  { name: "nodes-contrast", query: "state=connected&contrast=high" },
  { name: "nodes-no-match", query: "state=connected", prepare: (page) => page.locator("[data-page-search]").fill("no such node") },
  { name: "nodes-testing", query: "state=connected", prepare: (page) => page.locator(".pair .btn").first().click() },
  { name: "first-run", query: "nodes=0" },
  {
    name: "import",
    query: "nodes=0",
    prepare: async (page) => {
      await page.locator("textarea").fill(LINES);
      await page.keyboard.press("Control+Enter");
      await page.waitForSelector("dialog .tr");
    },
  },
  { name: "palette", query: "state=connected", prepare: (page) => page.keyboard.press("Control+k") },
  {
    name: "connections",
    query: "state=connected",
    prepare: async (page) => {
      await page.keyboard.press("Control+2");
      await page.locator("[data-flow]").first().click();
    },
  },
  { name: "connections-empty", query: "state=off", prepare: (page) => page.keyboard.press("Control+2") },
  { name: "logs", query: "state=connected", prepare: (page) => page.keyboard.press("Control+3") },
  { name: "settings", query: "state=connected", prepare: (page) => page.keyboard.press("Control+4") },
];
const looks = [
  { look: "en-light", query: "lang=en&theme=light" },
  { look: "en-dark", query: "lang=en&theme=dark" },
  { look: "zh-light", query: "lang=zh-CN&theme=light" },
  { look: "zh-dark", query: "lang=zh-CN&theme=dark" },
];

describe.each(looks)("$look", ({ look, query }) => {
  it.each(scenes)("$name", async ({ name, query: state, prepare, size }) => {
    if (!fixture) return;
    const { page, problems } = await openApp(fixture, `still&${query}&${state}`, size);
    await prepare?.(page);
    await page.waitForTimeout(150);
    await page.screenshot({ path: join(SHOTS, `${name}-${look}.png`) });
    // Roles and contrast don't depend on the language.
    if (look.startsWith("en")) expect(await violations(page)).toEqual([]);
    expect(problems).toEqual([]);
    // Nothing may spill out of the window.
    const spill = await page.evaluate(() => [document.documentElement.scrollWidth - innerWidth, document.documentElement.scrollHeight - innerHeight]);
    expect(Math.max(...spill)).toBeLessThanOrEqual(0);
    await page.close();
  });
});
