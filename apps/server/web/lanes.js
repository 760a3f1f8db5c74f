// The live lanes: what draft, target and sampler do, as a moving timeline for each engine.
import { latest, receive } from "./answer.js";
import * as api from "./api.js";
import { el } from "./dom.js";
import { seconds } from "./message.js";
import { requestFields } from "./settings.js";
import { Spans } from "./spans.js";

const rowHeight = 34;
const labelWidth = 76;
const axisHeight = 22;
const delay = 0.25; // Seconds that the picture is behind, so that events have come.
const windows = [["0.1", "100 ms"], ["0.5", "500 ms"], ["2", "2 s"], ["8", "8 s"]];
const colours = {
  draft: "--lane-draft",
  forward: "--lane-target",
  prefill: "--lane-prompt",
  verify: "--lane-sampler"
};
const meanings = [
  ["draft", "draft writes"],
  ["forward", "target judges"],
  ["prefill", "target reads a prompt"],
  ["verify", "sampler decides"]
];

function colourOf(span) {
  if (span.step === "verify") return "verify";
  if (span.lane.includes("draft")) return "draft";
  return span.details.kind === "prefill" ? "prefill" : "forward";
}

function share(part, whole) {
  return whole > 0 ? `${Math.round((100 * part) / whole)} %` : "–";
}

// Returns the figures of an engine as [name, value, explanation].
function figuresOf(spans) {
  const { counts } = spans;
  const grown = (name) => spans.growth(name);
  const rounds = grown("rounds");
  const last = latest.stats;
  return [
    [
      "Accepted",
      share(grown("accepted"), grown("judged")),
      "Of the drafted tokens that were judged in the last seconds"
    ],
    [
      "Tokens a round",
      rounds > 0 ? (grown("generated_tokens") / rounds).toFixed(1) : "–",
      "Tokens for each pass of the target, over all sequences"
    ],
    [
      "Tokens a second",
      rounds > 0 && spans.seconds() > 0
        ? Math.round(grown("generated_tokens") / spans.seconds())
        : "–",
      "Over the last seconds"
    ],
    [
      "Drafting overlapped",
      share(grown("overlapped_seconds"), grown("draft_busy_seconds")),
      "Share of drafting that lay under work of the target"
    ],
    ["Running, waiting", `${counts.running}, ${counts.waiting}`, "Requests"],
    [
      "Pages",
      `${counts.kv_pages_used} of ${counts.kv_pages_total}`,
      "Pages of the KV caches that requests hold"
    ],
    [
      "Mode",
      last?.speculation?.mode ?? "–",
      "The mode at the end of your last answer, which auto may have chosen"
    ],
    [
      "First token",
      last?.first ? seconds(last.first) : "–",
      "Of your last answer, as this browser saw it"
    ],
  ];
}

class EngineView {
  constructor(name) {
    this.spans = new Spans();
    this.canvas = el("canvas", { role: "img", "aria-label": `Timeline of ${name}` });
    this.figures = el("dl", { class: "figures" });
    this.lost = el("span", {});
    const key = meanings.map(([kind, meaning]) => {
      const colour = el("i", {});
      colour.style.background = `var(${colours[kind]})`;
      return el("span", {}, colour, meaning);
    });
    this.element = el(
      "section",
      { class: "engine" },
      el("h3", {}, name),
      this.canvas,
      el("p", { class: "key" }, ...key, this.lost),
      this.figures
    );
  }

  take(engine) {
    this.spans.take(engine);
    const figures = figuresOf(this.spans).map(
      ([name, value, what]) =>
        el("div", { title: what }, el("dt", {}, name), el("dd", {}, String(value)))
    );
    this.figures.replaceChildren(...figures);
    this.lost.textContent =
      engine.lost > 0 ? `${engine.lost} pieces of work were too many to be sent` : "";
  }

  draw(windowSeconds) {
    const { canvas, spans } = this;
    const names = spans.names();
    const style = getComputedStyle(canvas);
    const scale = devicePixelRatio;
    const width = canvas.clientWidth;
    const height = Math.max(names.length, 3) * rowHeight + axisHeight;
    const dots = [Math.round(width * scale), Math.round(height * scale)];
    if (canvas.width !== dots[0] || canvas.height !== dots[1]) {
      [canvas.width, canvas.height] = dots;
      canvas.style.height = `${height}px`;
    }
    const brush = canvas.getContext("2d");
    brush.setTransform(scale, 0, 0, scale, 0, 0);
    brush.clearRect(0, 0, width, height);
    brush.font = "12px system-ui, sans-serif";
    const end = spans.now() - delay;
    const perSecond = (width - labelWidth) / windowSeconds;
    const place = (time) => labelWidth + (time - (end - windowSeconds)) * perSecond;
    this.axis(brush, style, { width, height, end, windowSeconds, place });
    names.forEach((name, row) => {
      const frame = { row, place, width, end, begin: end - windowSeconds };
      this.row(brush, style, spans.rows.get(name), frame);
    });
    brush.clearRect(0, 0, labelWidth - 4, height);
    brush.fillStyle = style.getPropertyValue("--soft");
    names.forEach((name, row) => brush.fillText(name, 10, row * rowHeight + 21));
    if (names.length === 0) brush.fillText("Nothing has run yet.", 10, 21);
  }

  axis(brush, style, { width, height, end, windowSeconds, place }) {
    const step = windowSeconds / (width < 600 ? 2 : 5);
    brush.strokeStyle = style.getPropertyValue("--line");
    brush.fillStyle = style.getPropertyValue("--soft");
    for (let time = Math.ceil((end - windowSeconds) / step) * step; time < end; time += step) {
      const x = Math.round(place(time)) + 0.5;
      if (x < labelWidth) continue;
      brush.beginPath();
      brush.moveTo(x, 0);
      brush.lineTo(x, height - axisHeight + 4);
      brush.stroke();
      brush.fillText(`${time.toFixed(step < 0.1 ? 2 : 1)} s`, x + 3, height - 6);
    }
  }

  row(brush, style, spans, { row, place, begin, end, width }) {
    const y = row * rowHeight + 6;
    for (let i = spans.length - 1; i >= 0 && spans[i].end > begin; --i) {
      if (spans[i].begin > end) continue;
      const from = Math.max(labelWidth, place(spans[i].begin));
      const to = Math.min(width, place(Math.min(spans[i].end, end)));
      brush.fillStyle = style.getPropertyValue(colours[colourOf(spans[i])]);
      brush.fillRect(from, y, Math.max(to - from - 0.5, 0.75), rowHeight - 12);
    }
  }
}

// Makes the view. page: is told of errors, and shows them.
export function lanesView(page) {
  const engines = new Map();
  const stopper = new AbortController();
  const list = el("div", {});
  const problem = el("p", { class: "problem", role: "alert", hidden: true });
  const zoom = el(
    "select",
    { "aria-label": "Time shown" },
    ...windows.map(([value, text]) => el("option", { value }, text))
  );
  zoom.value = "2";
  let paused = false;
  const pause = el(
    "button",
    {
      type: "button",
      class: "quiet",
      "aria-pressed": "false",
      onclick: () => {
        paused = !paused;
        pause.textContent = paused ? "Go on" : "Pause";
        pause.setAttribute("aria-pressed", String(paused));
      }
    },
    "Pause"
  );
  const run = el(
    "button", { type: "button", onclick: () => feed(run, stopper.signal, tell) }, "Give it work"
  );
  const tell = (text) => {
    problem.hidden = !text;
    problem.textContent = text;
  };

  // An event names all engines there are.
  function show(event) {
    for (const [number, view] of engines)
      if (!event.engines.some((engine) => engine.engine === number)) {
        view.element.remove();
        engines.delete(number);
      }
    for (const engine of event.engines) {
      if (!engines.has(engine.engine)) {
        engines.set(engine.engine, new EngineView(engine.model));
        list.append(engines.get(engine.engine).element);
      }
      engines.get(engine.engine).take(engine);
    }
  }

  async function watch() {
    try {
      let begun = false;
      for await (const event of api.timeline(stopper.signal)) {
        if (!begun) tell(""); // What was wrong before is over.
        begun = true;
        show(event);
      }
      throw new api.ApiError(0, "The server has ended the timeline.");
    } catch (error) {
      if (error.name === "AbortError") return;
      tell(error.message);
      page.failed(error, () => page.showView());
    }
  }

  function draw() {
    if (stopper.signal.aborted) return;
    if (!paused)
      for (const view of engines.values())
        if (view.spans.counts) view.draw(Number(zoom.value));
    requestAnimationFrame(draw);
  }

  const element = el(
    "section",
    { class: "lanes", "aria-label": "Lanes" },
    el(
      "div",
      { class: "bar" },
      el("h2", {}, "What the lanes do"),
      el("span", { class: "spring" }),
      zoom,
      pause,
      run
    ),
    problem,
    list
  );
  element.returned = () => page.showView(); // The server is back, perhaps with other engines.
  element.leave = () => stopper.abort();    // Lanes record nothing while nobody looks.
  watch();
  requestAnimationFrame(draw);
  return element;
}

// Sends a prompt whose answer nobody reads, so that there is something to see.
async function feed(button, signal, tell) {
  button.disabled = true;
  try {
    const body = {
      ...requestFields(),
      max_tokens: 400,
      messages: [{ role: "user", content: "def fibonacci(n):" }]
    };
    await receive({ content: "" }, body, signal, () => {});
    tell("");
  } catch (error) {
    if (error.name !== "AbortError") tell(error.message);
  }
  button.disabled = false;
}
