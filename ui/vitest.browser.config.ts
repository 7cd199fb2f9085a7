import { defineConfig } from "vitest/config";

// The pages over the mock core in a headless Chromium: slower, and so apart from the unit tests.
export default defineConfig({
  test: {
    include: ["tests/**/*.browser.ts"],
    environment: "node",
    testTimeout: 60_000,
    hookTimeout: 60_000,
    fileParallelism: false,
  },
});
