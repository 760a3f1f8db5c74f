// One message of a conversation, as it is shown: its text, its reasoning, calls, and what
// speculation did for it.
import { copyText, el } from "./dom.js";
import { MarkdownView } from "./markdown.js";
import { firstBehind } from "./tokens.js";

const wholeMax = 200_000; // A longer text is shown up to here, so that the page stays quick.

// Returns the nodes of source[start, end): one for each token, where tokens are known.
export function tokenNodes(source, tokens, start, end) {
  const nodes = document.createDocumentFragment();
  let shown = start;
  for (let i = firstBehind(tokens, start); i < tokens.length && tokens[i].start < end; ++i) {
    const from = Math.max(start, tokens[i].start);
    const to = Math.min(end, tokens[i].end);
    if (from > shown) nodes.append(source.slice(shown, from));
    const { source: by } = tokens[i];
    nodes.append(
      el("span", { class: by ? `t ${by}` : "t", data: { token: i } }, source.slice(from, to))
    );
    shown = to;
  }
  if (end > shown) nodes.append(source.slice(shown, end));
  return nodes;
}

function rounded(number, digits = 1) {
  return Number(number.toFixed(digits)).toLocaleString("en");
}

export function seconds(value) {
  return value < 1 ? `${rounded(1000 * value, value < 0.01 ? 1 : 0)} ms` : `${rounded(value)} s`;
}

// Returns what is said of an answer, as [text, explanation] in the order of how much people ask.
export function figures(stats) {
  const list = [];
  if (stats.tokens) list.push([`${stats.tokens} tokens`, "Tokens of the answer"]);
  if (stats.rate)
    list.push([
      `${rounded(stats.rate, stats.rate < 10 ? 1 : 0)} a second`,
      "Tokens a second, from the first to the last"
    ]);
  if (stats.first)
    list.push([
      `first after ${seconds(stats.first)}`,
      "Time to first token, as this browser saw it"
    ]);
  const did = stats.speculation;
  if (did?.judged > 0) {
    list.push([
      `${rounded(100 * did.acceptance_rate, 0)} % accepted`,
      `${did.accepted} of ${did.judged} drafted tokens that the target judged`
    ]);
    list.push([
      `${rounded(did.tokens_per_round)} a round`,
      "Tokens that a pass of the target brought, on average"
    ]);
  }
  if (did)
    list.push([
      `mode ${did.mode}`,
      `The mode in use at the end; window ${did.window}, rule ${did.verify}`
    ]);
  if (stats.seed !== undefined)
    list.push([
      `seed ${stats.seed}`,
      stats.reproducible ? "With this seed and rule the same tokens come again"
                         : "Other tokens may come with this seed"
    ]);
  return list;
}

export class MessageView {
  // actions: { edit(text), regenerate() }, for messages that have them.
  constructor(message, actions) {
    this.message = message;
    const user = message.role === "user";
    this.body = el("div", { class: "text" });
    this.view = new MarkdownView(this.body);
    this.reasoning =
      el("details", { class: "reasoning", hidden: true }, el("summary", {}, "Reasoning"));
    this.reasoningText = el("div", { class: "plain" });
    this.reasoning.append(this.reasoningText);
    this.calls = el("div", { class: "calls" });
    this.problem = el("p", { class: "problem", role: "alert", hidden: true });
    this.foot = el("footer", {});
    this.element = el(
      "article",
      { class: user ? "message user" : "message answer", "aria-label": user ? "You" : "Answer" },
      this.reasoning,
      this.body,
      this.calls,
      this.problem,
      this.foot
    );
    this.actions = actions;
    this.update(true);
  }

  update(done) {
    const { message } = this;
    const tokens = message.tokens ?? [];
    const whole = message.content ?? "";
    const text = whole.slice(0, wholeMax);
    const shift = (message.reasoning ?? "").length;
    if (message.role === "user")
      this.body.textContent = text;
    else
      this.view.update(
        text,
        (start, end) => this.textNodes(tokens, shift, start, end),
        done ? text.length + 1 : (tokens.at(-1)?.start ?? text.length) - shift
      );
    if (whole.length > wholeMax && done)
      this.body.append(
        el("p", { class: "notice" }, `${whole.length - wholeMax} more characters are not shown.`)
      );
    this.reasoning.hidden = !message.reasoning;
    if (message.reasoning)
      this.reasoningText.replaceChildren(
        tokenNodes(message.reasoning, tokens, 0, message.reasoning.length)
      );
    this.calls.replaceChildren(...(message.calls ?? []).map(callCard));
    this.problem.hidden = !message.problem;
    this.problem.textContent = message.problem ?? "";
    this.element.classList.toggle("writing", !done);
    this.element.setAttribute("aria-busy", String(!done));
    if (done)
      this.finish();
    else
      this.foot.replaceChildren(...this.figureNodes());
  }

  // Tokens have places in reasoning and text together; the text begins behind the reasoning.
  textNodes(tokens, shift, start, end) {
    const { reasoning, content } = this.message;
    return tokenNodes((reasoning ?? "") + content, tokens, start + shift, end + shift);
  }

  figureNodes() {
    return figures(this.message.stats ?? {}).map(([text, what]) =>
      el("span", { title: what }, text)
    );
  }

  finish() {
    const button = (text, action) =>
      el("button", { type: "button", class: "quiet small", onclick: action }, text);
    const copy = button("Copy", () => copyText(this.message.content ?? "", copy));
    const buttons = [copy];
    if (this.actions.edit) buttons.push(button("Edit", () => this.edit()));
    if (this.actions.regenerate) buttons.push(button("Regenerate", this.actions.regenerate));
    this.foot.replaceChildren(...this.figureNodes(), el("span", { class: "spring" }), ...buttons);
  }

  edit() {
    const area = el("textarea", {
      value: this.message.content,
      rows: 3,
      "aria-label": "Edit your message",
      onkeydown: (event) => {
        if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
          event.preventDefault();
          this.actions.edit(area.value);
        }
        if (event.key === "Escape") {
          event.stopPropagation();
          this.update(true);
        }
      }
    });
    this.body.replaceChildren(area);
    this.foot.replaceChildren(
      el("span", { class: "notice" }, "What follows is answered anew."),
      el("span", { class: "spring" }),
      el(
        "button",
        { type: "button", class: "quiet small", onclick: () => this.update(true) },
        "Cancel"
      ),
      el(
        "button",
        { type: "button", class: "small", onclick: () => this.actions.edit(area.value) },
        "Send"
      )
    );
    area.focus();
  }
}

function callCard(call) {
  let text = call.arguments;
  try {
    text = JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    // It is still being written, or was cut short.
  }
  return el(
    "figure",
    { class: "code" },
    el("figcaption", {}, `Call of ${call.name}`),
    el("pre", { tabIndex: 0 }, el("code", {}, text))
  );
}
