// The spans of one engine's lanes, as the timeline reports them, and the clock they are by.
const secondsMax = 10; // Older spans are forgotten.
const spansMax = 20_000;

// The row in which a step is shown: the sampler works on the target's lane, behind its passes.
function rowOf(lane, step) {
  const number = /^target (\d+) /.exec(lane);
  if (step === "verify") return "sampler";
  if (lane.includes("draft")) return "draft";
  return number ? `target ${number[1]}` : "target";
}

export class Spans {
  constructor() {
    // Name of a row -> its spans, oldest first: { begin, end, step, lane, details }.
    this.rows = new Map();
    this.ahead = Infinity; // Seconds that this browser's clock is ahead of the engine's.
    this.lost = 0;
    this.counts = null;
    this.history = []; // { at, counts }: for rates over the last seconds.
  }

  // engine: a part of an event of /v1/timeline. Times there are microseconds of the engine's clock.
  take(engine) {
    const here = performance.now() / 1000;
    // The event that came fastest counts.
    this.ahead = Math.min(this.ahead, here - engine.now / 1e6);
    this.lost = engine.lost;
    this.counts = engine.counts;
    this.history.push({ at: here, counts: engine.counts });
    while (this.history.length > 1 && this.history[0].at < here - 3) this.history.shift();
    for (const [lane, step, begin, length, details] of engine.spans) {
      const name = rowOf(lane, step);
      if (!this.rows.has(name)) this.rows.set(name, []);
      const span = { begin: begin / 1e6, end: (begin + length) / 1e6, step, lane, details };
      this.rows.get(name).push(span);
    }
    this.forget(engine.now / 1e6 - secondsMax);
  }

  forget(before) {
    for (const spans of this.rows.values()) {
      let gone = Math.max(0, spans.length - spansMax);
      while (gone < spans.length && spans[gone].end < before) ++gone;
      spans.splice(0, gone);
    }
  }

  // What the engine's clock shows now.
  now() {
    return performance.now() / 1000 - this.ahead;
  }

  // How much a count has grown over the last seconds.
  growth(name) {
    return this.counts[name] - this.history[0].counts[name];
  }

  seconds() {
    return this.history.at(-1).at - this.history[0].at;
  }

  // Rows in the order in which work passes through them.
  names() {
    const order = (name) => (name === "draft" ? 0 : name === "sampler" ? 2 : 1);
    return [...this.rows.keys()].sort((a, b) => order(a) - order(b) || a.localeCompare(b));
  }
}
