// The chat: a conversation, and the box in which its next message is written.
import { receive } from "./answer.js";
import * as api from "./api.js";
import { firstRead, firstWithRoom } from "./context.js";
import { announce, beforeFrame, el } from "./dom.js";
import { watchTokens } from "./hover.js";
import { MessageView } from "./message.js";
import { requestFields, SettingsError } from "./settings.js";
import { newConversation, saveConversations, settings } from "./store.js";

const titleMax = 48;
const examples = [
  "def fibonacci(n):",
  "Explain speculative decoding in three sentences.",
  "Write a haiku about memory bandwidth."
];

function toCall({ id, name, arguments: given }) {
  return { id, type: "function", function: { name, arguments: given } };
}

// What the server is sent of messages.
function toMessages(some) {
  const messages = some.map(({ role, content, calls }) => {
    const message = { role, content };
    if (calls?.length) message.tool_calls = calls.map(toCall);
    return message;
  });
  if (settings.system.trim()) messages.unshift({ role: "system", content: settings.system });
  return messages;
}

// What is said where an answer fills the context; nothing where it ends otherwise.
function fullContext({ finish, total }) {
  const context = api.contextOf(settings.model);
  if (finish !== "length" || !context || total < context) return "";
  const next = settings.shift ? "what you say next lets the oldest messages go."
                              : "begin a new conversation, or let the oldest messages go (Settings).";
  return `The context of ${context.toLocaleString("en")} tokens is full, so the answer ends here: ${next}`;
}

export class Chat {
  // page: { failed(error), changed() }: the page around, which is told of errors that are the
  // server's as a whole, and of titles.
  constructor(page) {
    this.page = page;
    this.stopper = null; // Stops the answer that is being written.
    this.views = [];
    this.list = el("div", { class: "messages" });
    this.input = el("textarea", {
      id: "input",
      rows: 1,
      placeholder: "Write a message",
      "aria-label": "Message",
      autocomplete: "off",
      oninput: () => this.grow(),
      onkeydown: (event) => this.pressed(event)
    });
    this.button = el("button", { type: "submit", id: "send" }, "Send");
    this.form = el(
      "form",
      {
        class: "composer",
        onsubmit: (event) => {
          event.preventDefault();
          if (this.stopper)
            this.stop();
          else
            this.send(this.input.value);
        }
      },
      this.input,
      this.button
    );
    this.scroller = el("div", { class: "scroller", tabIndex: -1 }, this.list);
    this.element = el("section", { class: "chat", "aria-label": "Chat" }, this.scroller, this.form);
    watchTokens(
      this.list,
      (target) => this.views.find((view) => view.element.contains(target))?.message.tokens
    );
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.stopper && !document.querySelector("dialog[open]"))
        this.stop();
    });
  }

  open(conversation) {
    this.stop();
    this.conversation = conversation;
    this.show();
    this.scroll(true);
    if (!matchMedia("(pointer: coarse)").matches)
      this.input.focus(); // A phone would show its keys.
  }

  show() {
    this.views = this.conversation.messages.map(
      (message, at) => new MessageView(message, this.actionsOf(message, at))
    );
    const nodes = this.views.map((view) => view.element);
    const first = firstRead(this.conversation);
    if (first > 0)
      nodes.splice(
        first,
        0,
        el("p", { class: "notice" }, "The context was full: the model reads from here on.")
      );
    this.list.replaceChildren(...nodes);
    if (this.views.length === 0) this.list.append(this.welcome());
  }

  welcome() {
    const tries = examples.map(
      (text) =>
        el("button", { type: "button", class: "quiet", onclick: () => this.send(text) }, text)
    );
    return el(
      "div",
      { class: "welcome" },
      el("h2", {}, "What shall it be?"),
      el(
        "p",
        {},
        "A small model drafts, the large one judges, both at once. ",
        el("span", { class: "t draft" }, "Shaded"),
        " words were drafted and accepted, ",
        el("span", { class: "t lookahead" }, "these"),
        " while the words before them were being judged."
      ),
      el("div", { class: "tries" }, ...tries)
    );
  }

  actionsOf(message, at) {
    if (message.role === "user") return { edit: (text) => this.resend(at, text) };
    return at === this.conversation.messages.length - 1 ? { regenerate: () => this.regenerate() }
                                                        : {};
  }

  pressed(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (!this.stopper) this.send(this.input.value);
  }

  grow() {
    this.input.style.height = "auto";
    this.input.style.height = `${Math.min(this.input.scrollHeight, innerHeight * 0.4)}px`;
  }

  send(text) {
    if (text.trim() === "" || this.stopper) return;
    this.conversation ??= newConversation();
    const { messages } = this.conversation;
    if (messages.length === 0)
      this.conversation.title = text.trim().split("\n")[0].slice(0, titleMax);
    messages.push({ role: "user", content: text });
    this.input.value = "";
    this.grow();
    this.answer();
  }

  // Replaces a message by another text, and drops what followed.
  resend(at, text) {
    if (text.trim() === "" || this.stopper) return;
    this.conversation.messages.splice(at);
    if (at < firstRead(this.conversation)) this.conversation.first = 0;
    this.send(text);
  }

  regenerate() {
    if (this.stopper) return;
    if (this.conversation.messages.at(-1)?.role === "assistant") this.conversation.messages.pop();
    this.answer();
  }

  async answer() {
    const { conversation } = this;
    let body;
    try {
      body = requestFields();
      body.messages = toMessages(conversation.messages.slice(firstRead(conversation)));
    } catch (error) {
      if (!(error instanceof SettingsError)) throw error;
      body = null;
      this.problem = error.message;
    }
    const message = { role: "assistant", content: "" };
    conversation.messages.push(message);
    conversation.at = Date.now();
    this.show();
    if (!body)
      return this.finish(conversation, message, this.views.at(-1), { message: this.problem });
    await this.write(conversation, message, body);
  }

  async write(conversation, message, body) {
    let view = this.views.at(-1);
    const stopper = new AbortController();
    this.stopper = stopper;
    this.writing(true);
    view.update(false);
    this.scroll(true);
    const draw = beforeFrame(() => {
      if (this.stopper !== stopper) return;
      const follow = this.atEnd();
      view.update(false);
      if (follow) this.scroll(true);
    });
    let failed = null;
    try {
      if (settings.shift && (await this.makeRoom(conversation, body, stopper.signal)))
        view = this.views.at(-1);
      await receive(message, body, stopper.signal, draw);
    } catch (error) {
      failed = error;
    }
    if (this.stopper === stopper) this.writing(false);
    this.finish(conversation, message, view, failed);
  }

  // Lets the oldest messages go where an answer has no room. Resolves to whether there were any.
  async makeRoom(conversation, body, signal) {
    const from = (first) => toMessages(conversation.messages.slice(first, -1)); // The last is to come.
    const count = (first) => api.countTokens({...body, messages: from(first) }, signal);
    const first = await firstWithRoom(conversation, body.max_tokens, count);
    signal.throwIfAborted();
    if (first === firstRead(conversation)) return false;
    conversation.first = first;
    body.messages = from(first);
    this.show();
    this.views.at(-1).update(false);
    this.scroll(true);
    announce("The context was full: the model no longer reads the oldest messages.");
    return true;
  }

  finish(conversation, message, view, failed) {
    if (failed?.name === "AbortError")
      message.problem =
        message.content || message.reasoning ? "Stopped." : "Stopped before the first token.";
    else if (failed)
      message.problem = failed.message;
    else
      message.problem = fullContext(message.stats);
    const follow = this.atEnd();
    view.update(true);
    if (follow) this.scroll(true);
    saveConversations();
    this.page.changed();
    announce(message.problem || "The answer is complete.");
    if (failed && failed.name !== "AbortError")
      this.page.failed(failed, () => this.conversation === conversation && this.regenerate());
  }

  stop() {
    this.stopper?.abort();
    this.writing(false);
  }

  writing(on) {
    if (!on) this.stopper = null;
    this.button.textContent = on ? "Stop" : "Send";
    this.button.classList.toggle("stop", on);
    this.button.title = on ? "Escape stops, too" : "";
  }

  atEnd() {
    const { scrollTop, clientHeight, scrollHeight } = this.scroller;
    return scrollTop + clientHeight > scrollHeight - 80;
  }

  scroll(toEnd) {
    if (toEnd) this.scroller.scrollTop = this.scroller.scrollHeight;
  }
}
