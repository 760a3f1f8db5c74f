// The page: its views, the list of conversations, the link to the server.
import * as api from "./api.js";
import { Chat } from "./chat.js";
import { el } from "./dom.js";
import { lanesView } from "./lanes.js";
import { raceView } from "./race.js";
import { askForKey, openSettings } from "./settings.js";
import {
  conversations,
  newConversation,
  removeConversation,
  saveConversations,
  saveSettings,
  settings,
} from "./store.js";

const retryMilliseconds = 1000;
const part = (id) => document.getElementById(id);

class Page {
  constructor() {
    this.chat = new Chat(this);
    this.views = [
      ["Chat", () => this.chat.element],
      ["Lanes", () => lanesView(this)],
      ["Race", () => raceView(this)]
    ];
    this.current = conversations[0] ?? newConversation();
    part("open-settings").addEventListener("click", () => openSettings(() => this.chat.show()));
    const menuOpen = () => document.body.classList.contains("menu-open");
    part("menu").addEventListener("click", () => this.menu(!menuOpen()));
    part("model").addEventListener("change", (event) => {
      settings.model = event.target.value;
      saveSettings();
    });
    addEventListener("hashchange", () => this.showView());
  }

  start() {
    this.showView();
    this.openConversation(this.current);
    this.connect();
  }

  // ---- views ----

  showView() {
    const wanted = location.hash.slice(1);
    const [name, make] =
      this.views.find(([view]) => view.toLowerCase() === wanted) ?? this.views[0];
    const links = this.views.map(([view]) => {
      const current = view === name ? "page" : null;
      return el("a", { href: `#${view.toLowerCase()}`, "aria-current": current }, view);
    });
    part("views").replaceChildren(...links);
    part("views").hidden = this.views.length < 2;
    this.view?.leave?.();
    const element = make();
    this.view = element;
    part("view").replaceChildren(element);
    document.body.classList.toggle("with-side", name === "Chat");
  }

  menu(open) {
    document.body.classList.toggle("menu-open", open);
    part("menu").setAttribute("aria-expanded", String(open));
  }

  // ---- conversations ----

  openConversation(one) {
    this.current = one;
    this.chat.open(one);
    this.menu(false);
    this.changed();
  }

  changed() {
    const rows = conversations.map(
      (one) => el(
        "li",
        { class: one === this.current ? "open" : "" },
        el(
          "button",
          {
            type: "button",
            class: "title",
            "aria-current": one === this.current ? "true" : null,
            onclick: () => this.openConversation(one)
          },
          one.title
        ),
        el(
          "button",
          {
            type: "button",
            class: "icon",
            "aria-label": `Delete ${one.title}`,
            title: "Delete",
            onclick: () => this.remove(one)
          },
          "×"
        )
      )
    );
    const add =
      el("button", { type: "button", class: "new", onclick: () => this.add() }, "New conversation");
    part("side").replaceChildren(
      add, el("ul", {}, ...rows), el("p", { class: "notice" }, "Kept in this browser only.")
    );
  }

  add() {
    const empty = conversations.find((one) => one.messages.length === 0);
    this.openConversation(empty ?? newConversation());
  }

  remove(one) {
    removeConversation(one);
    this.openConversation(
      one === this.current ? (conversations[0] ?? newConversation()) : this.current
    );
    saveConversations();
  }

  // ---- the server ----

  async connect() {
    try {
      this.showModels(await api.models());
      this.link("ready", "Connected");
    } catch (error) {
      this.failed(error);
    }
  }

  showModels(list) {
    const select = part("model");
    select.replaceChildren(...list.map(({ id }) => el("option", { value: id }, id)));
    if (list.some(({ id }) => id === settings.model))
      select.value = settings.model;
    else
      settings.model = "";
    select.disabled = list.length < 2;
  }

  link(state, text) {
    part("link").className = `link ${state}`;
    part("link").textContent = text;
  }

  // Does what an error asks for: a key, or patience. again: repeats what failed.
  async failed(error, again = () => {}) {
    if (error.status === 401) {
      const why = api.key.get() ? "The server does not know this key." : "This server wants a key.";
      if (!(await askForKey(why))) return this.link("away", "No key");
      await this.connect();
      if (part("link").classList.contains("ready")) again();
    } else if (error.status === 0 || error.status === 503) {
      this.link("away", error.status === 0 ? "Not connected" : "Not ready");
      this.wait();
    }
  }

  // Looks now and then whether the server is back.
  async wait() {
    if (this.waiting) return;
    this.waiting = true;
    while (!(await api.ready())) await new Promise((then) => setTimeout(then, retryMilliseconds));
    this.waiting = false;
    await this.connect();
    this.view.returned?.();
  }
}

new Page().start();
