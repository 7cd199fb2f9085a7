import "@fontsource-variable/inter/wght.css";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/list.css";

import { mount } from "svelte";

import App from "./App.svelte";
import { openTransport } from "./lib/ipc/open";

const target = document.getElementById("app");
if (target) {
  void openTransport().then((transport) => mount(App, { target, props: { transport } }));
}
