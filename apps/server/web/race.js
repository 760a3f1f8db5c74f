// The race: one prompt in each mode. Modes run one after the other, each with the machine for
// itself, and then all of them again side by side, at the speed at which they ran.
import { receive } from "./answer.js";
import { el } from "./dom.js";
import { figures, tokenNodes } from "./message.js";
import { requestFields } from "./settings.js";
import { settings } from "./store.js";

const modes = [
  ["off", "the target alone"],
  ["sync", "in turns"],
  ["overlap", "at once"],
  ["auto", "as it pays"]
];
const tokensDefault = 160;
const shortest = 4; // Seconds of the replay; what would be over sooner is slowed down.

class Runner {
  constructor(mode, what) {
    this.mode = mode;
    this.time = el("span", {}, what);
    this.bar = el("progress", { max: 1, value: 0, "aria-label": `Progress of ${mode}` });
    this.text = el("pre", { tabIndex: 0, "aria-label": `Text of ${mode}` });
    this.foot = el("p", { class: "notice" });
    this.element = el(
      "section", { class: "runner" }, el("h3", {}, mode, this.time), this.bar, this.text, this.foot
    );
  }

  async run(body, most, signal) {
    this.message = { role: "assistant", content: "", tokens: [] };
    this.steps = []; // { at, tokens, length }: what there was when.
    const began = performance.now();
    await receive(this.message, body, signal, () => {
      const step = {
        at: (performance.now() - began) / 1000,
        tokens: this.message.tokens.length,
        length: this.message.content.length
      };
      this.steps.push(step);
      this.show(step, most);
    });
    this.foot.textContent =
      figures(this.message.stats).slice(1, 5).map(([text]) => text).join(" · ");
  }

  // Shows what there was at a time; returns whether more comes later.
  replay(at, most) {
    let i = this.steps.length - 1;
    while (i > 0 && this.steps[i].at > at) --i;
    const step = this.steps[i];
    this.show(step && step.at <= at ? step : { at, tokens: 0, length: 0 }, most);
    return i < this.steps.length - 1;
  }

  show({ at, tokens, length }, most) {
    this.bar.value = Math.min(1, tokens / most);
    this.time.textContent = `${at.toFixed(2)} s`;
    const { content, tokens: all } = this.message;
    this.text.replaceChildren(tokenNodes(content, all.slice(0, tokens), 0, length));
    this.text.scrollTop = this.text.scrollHeight;
  }
}

// The same noise for all, so that all write the same text: plain sampling's for this seed.
function bodyOf(mode, prompt, most) {
  const fields = requestFields(mode);
  return {
    ...fields,
    messages: [
      ...(settings.system.trim() ? [{ role: "system", content: settings.system }] : []),
      { role: "user", content: prompt }
    ],
    max_tokens: most,
    seed: fields.seed ?? 7,
    logprobs: true,
    top_logprobs: 0,
    cache_salt:
      `${mode} ${crypto.getRandomValues(new Uint32Array(1))}`, // Nothing of another run helps.
    speculation: {...fields.speculation, mode, verify: "coupled", sources: true },
  };
}

export function raceView(page) {
  const runners = modes.map(([mode, what]) => new Runner(mode, what));
  const problem = el("p", { class: "problem", role: "alert", hidden: true });
  const prompt =
    el("textarea", { rows: 1, value: "def fibonacci(n):", "aria-label": "Prompt of the race" });
  const start = el("button", { type: "submit" }, "Start");
  const again = el(
    "button",
    { type: "button", class: "quiet", disabled: true, onclick: () => together() },
    "Replay side by side"
  );
  const most = Number(settings.max_tokens) || tokensDefault;
  const slowed = el("span", { class: "notice" });
  let stopper = null;

  function together() {
    const began = performance.now();
    const speed =
      Math.min(1, Math.max(...runners.map((runner) => runner.steps.at(-1).at)) / shortest);
    slowed.textContent = speed < 1 ? `${(1 / speed).toFixed(1)} times slowed down` : "";
    const frame = () => {
      const at = (speed * (performance.now() - began)) / 1000;
      const more = runners.map((runner) => runner.replay(at, most));
      if (more.includes(true) && element.isConnected && !stopper) requestAnimationFrame(frame);
    };
    frame();
  }

  async function race() {
    if (stopper) return stopper.abort();
    stopper = new AbortController();
    start.textContent = "Stop";
    again.disabled = true;
    problem.hidden = true;
    let done = false;
    try {
      for (const runner of runners)
        await runner.run(bodyOf(runner.mode, prompt.value, most), most, stopper.signal);
      done = true;
    } catch (error) {
      problem.hidden = false;
      problem.textContent = error.name === "AbortError" ? "Stopped." : error.message;
      if (error.name !== "AbortError") page.failed(error);
    }
    stopper = null;
    start.textContent = "Start";
    again.disabled = !done;
    if (done) together();
  }

  const form = el(
    "form",
    {
      class: "composer",
      onsubmit: (event) => {
        event.preventDefault();
        race();
      }
    },
    prompt,
    start
  );
  const element = el(
    "section",
    { class: "race", "aria-label": "Race" },
    el(
      "div",
      { class: "bar" },
      el("h2", {}, "One prompt in each mode"),
      el(
        "span",
        { class: "notice" },
        "One after the other, then side by side. All write the same text."
      ),
      el("span", { class: "spring" }),
      slowed,
      again
    ),
    form,
    problem,
    el("div", { class: "columns" }, ...runners.map((runner) => runner.element))
  );
  element.leave = () => stopper?.abort();
  return element;
}
