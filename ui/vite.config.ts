import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

// `--mode mock` builds the same pages over the mock core, for a plain browser and the page tests.
export default defineConfig(({ mode }) => ({
  base: "./",
  plugins: [svelte()],
  define: { __MOCK__: JSON.stringify(mode === "mock") },
  server: { host: "127.0.0.1", port: 5173, strictPort: true },
  build: {
    outDir: mode === "mock" ? "dist-mock" : "dist",
    target: "es2022",
    // The content security policy allows no data: fonts, so nothing is inlined.
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    modulePreload: false,
    reportCompressedSize: false,
  },
}));
