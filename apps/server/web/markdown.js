// Markdown as elements. The text is walked by places in the source, so that each piece that is
// shown is known by where it stands there; `write(start, end)` makes the nodes of a piece.
//
// Every loop goes forward, and what cannot be closed is looked for once: the time is linear in the
// text, whatever a model writes.
import { copyText, el } from "./dom.js";

const depthMax = 6;       // Deeper lists and quotations are plain paragraphs.
const inlineMax = 20_000; // A longer paragraph has no marks.

// Returns the source's lines as { start, end } without their line ends.
function linesOf(source) {
  const lines = [];
  for (let start = 0; start <= source.length;) {
    const found = source.indexOf("\n", start);
    const end = found < 0 ? source.length : found;
    lines.push({ start, end });
    start = end + 1;
  }
  return lines;
}

const fence = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]{0,30})[^`]*$/;
const heading = /^ {0,3}(#{1,6})\s+/;
const rule = /^ {0,3}([-*_])(\s*\1){2,}\s*$/;
const quote = /^ {0,3}> ?/;
const item = /^( {0,12})([-*+]|\d{1,9}[.)])( +|$)/;
const tableRule = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;

class Renderer {
  constructor(source, write) {
    this.source = source;
    this.write = write;
  }

  text(line) {
    return this.source.slice(line.start, Math.min(line.end, line.start + 2000));
  }

  // Divides lines into blocks: { start, end, make }.
  blocks(lines, depth) {
    const found = [];
    for (let i = 0; i < lines.length;) {
      if (this.text(lines[i]).trim() === "") {
        ++i;
        continue;
      }
      const [count, make] = this.block(lines, i, depth);
      found.push({ start: lines[i].start, end: lines[i + count - 1].end, make });
      i += count;
    }
    return found;
  }

  // Returns how many lines the block has that begins with line i, and what makes its element.
  block(lines, i, depth) {
    const text = this.text(lines[i]);
    const opening = fence.exec(text);
    if (opening) return this.code(lines, i, opening);
    const head = heading.exec(text);
    if (head) {
      const line = { start: lines[i].start + head[0].length, end: lines[i].end };
      return [1, () => this.inline(el(`h${Math.min(6, head[1].length + 2)}`), [line])];
    }
    if (rule.test(text)) return [1, () => el("hr")];
    if (depth < depthMax && quote.test(text)) return this.quotation(lines, i, depth);
    if (depth < depthMax && item.test(text)) return this.list(lines, i, depth);
    const below = lines[i + 1] ? this.text(lines[i + 1]) : "";
    if (text.includes("|") && below.includes("|") && tableRule.test(below))
      return this.table(lines, i);
    return this.paragraph(lines, i, depth);
  }

  code(lines, i, opening) {
    let last = i + 1;
    const closes = new RegExp(
      `^ {0,3}${opening[1][0] === "`" ? "`" : "~"}{${Math.min(opening[1].length, 100)},}\\s*$`
    );
    while (last < lines.length && !closes.test(this.text(lines[last]))) ++last;
    const inside = lines.slice(i + 1, last);
    const make = () => {
      const code = el("code");
      inside.forEach((line, at) => {
        code.append(this.write(line.start, line.end));
        if (at + 1 < inside.length) code.append("\n");
      });
      const copy = el(
        "button",
        { class: "copy", type: "button", onclick: () => copyText(code.textContent, copy) },
        "Copy"
      );
      return el(
        "figure",
        { class: "code" },
        el("figcaption", {}, opening[2] || "code", copy),
        el("pre", { tabIndex: 0 }, code)
      );
    };
    return [Math.min(last + 1, lines.length) - i, make];
  }

  quotation(lines, i, depth) {
    let last = i;
    const inside = [];
    for (; last < lines.length; ++last) {
      const mark = quote.exec(this.text(lines[last]));
      if (!mark) break;
      inside.push({ start: lines[last].start + mark[0].length, end: lines[last].end });
    }
    return [last - i, () => this.fill(el("blockquote"), inside, depth + 1)];
  }

  list(lines, i, depth) {
    const first = item.exec(this.text(lines[i]));
    const ordered = /\d/.test(first[2]);
    const items = [];
    let last = i;
    for (; last < lines.length; ++last) {
      const text = this.text(lines[last]);
      const mark = item.exec(text);
      const indent = text.length - text.trimStart().length;
      if (mark && mark[1].length <= first[1].length + 1) {
        if (/\d/.test(mark[2]) !== ordered) break;
        items.push([{ start: lines[last].start + mark[0].length, end: lines[last].end }]);
      } else if (text.trim() === "") {
        const next = lines[last + 1] && this.text(lines[last + 1]);
        if (next === undefined || !(item.test(next) || next.startsWith("  "))) break;
        items.at(-1).push({ start: lines[last].end, end: lines[last].end });
      } else if (indent > first[1].length || !this.opens(text)) {
        const cut = Math.min(indent, first[1].length + first[2].length + 1);
        items.at(-1).push({ start: lines[last].start + cut, end: lines[last].end });
      } else
        break;
    }
    const make = () => {
      const list =
        el(ordered ? "ol" : "ul", ordered ? { start: Number.parseInt(first[2], 10) } : {});
      for (const inside of items) list.append(this.fill(el("li"), inside, depth + 1));
      return list;
    };
    return [last - i, make];
  }

  table(lines, i) {
    let last = i + 2;
    while (last < lines.length && this.text(lines[last]).includes("|")) ++last;
    const make = () => {
      const table = el("table");
      for (let row = i; row < last; ++row) {
        if (row === i + 1) continue;
        const line = el("tr");
        for (const cell of this.cells(lines[row]))
          line.append(this.inline(el(row === i ? "th" : "td"), [cell]));
        table.append(line);
      }
      return el("div", { class: "scroll", tabIndex: 0 }, table);
    };
    return [last - i, make];
  }

  cells(line) {
    const cells = [];
    let start = line.start;
    for (let at = line.start; at <= line.end; ++at) {
      if (at < line.end && this.source[at] !== "|") continue;
      if (this.source.slice(start, at).trim() !== "" || (start > line.start && at < line.end))
        cells.push({ start, end: at });
      start = at + 1;
    }
    return cells.slice(0, 40);
  }

  // Whether a line that stands below a paragraph begins another block.
  opens(text) {
    return fence.test(text) || heading.test(text) || quote.test(text) || item.test(text) ||
           rule.test(text);
  }

  paragraph(lines, i, depth) {
    let last = i + 1;
    while (last < lines.length && this.text(lines[last]).trim() !== "" &&
           !(depth < depthMax && this.opens(this.text(lines[last]))))
      ++last;
    const inside = lines.slice(i, last);
    return [last - i, () => this.inline(el("p"), inside)];
  }

  fill(element, lines, depth) {
    const blocks = this.blocks(lines, depth);
    if (blocks.length === 1 && element.tagName === "LI") {
      const only = blocks[0].make(); // A short item is no paragraph of its own.
      if (only.tagName === "P")
        element.append(...only.childNodes);
      else
        element.append(only);
      return element;
    }
    for (const block of blocks) element.append(block.make());
    return element;
  }

  inline(element, lines) {
    lines.forEach((line, at) => {
      if (at > 0) element.append(el("br"));
      if (line.end - line.start > inlineMax)
        element.append(this.write(line.start, line.end));
      else
        this.spans(element, line.start, line.end, 0);
    });
    return element;
  }

  // Marks inside a line: code, strong, emphasis, struck, links. A mark that has no end is text.
  spans(element, start, end, depth) {
    const { source } = this;
    const missing = new Set();
    let shown = start;
    const flush = (to) => {
      if (to > shown) element.append(this.write(shown, to));
    };
    const closing = (mark, from) => {
      if (missing.has(mark)) return -1;
      const found = source.slice(from, end).indexOf(mark);
      if (found >= 0) return from + found;
      missing.add(mark);
      return -1;
    };
    for (let at = start; at < end;) {
      const span = this.span(at, end, closing, depth);
      if (!span) {
        ++at;
        continue;
      }
      flush(at);
      shown = span.escapes ? at + 1 : span.next; // An escaped mark is text.
      at = span.next;
      if (span.escapes) continue;
      if (span.plain)
        span.element.append(this.write(span.from, span.to));
      else
        this.spans(span.element, span.from, span.to, depth + 1);
      element.append(span.element);
    }
    flush(end);
  }

  span(at, end, closing, depth) {
    const { source } = this;
    const c = source[at];
    if (c === "\\" && at + 1 < end && /[\\`*_~[\]#>|-]/.test(source[at + 1]))
      return { escapes: true, next: at + 2 };
    if (c === "`") {
      let ticks = 1;
      while (ticks < 10 && source[at + ticks] === "`") ++ticks;
      const close = closing("`".repeat(ticks), at + ticks);
      return close > at + ticks ? {
        element: el("code"),
        plain: true,
        from: at + ticks,
        to: close,
        next: close + ticks
      }
                                : null;
    }
    if (depth < depthMax && (c === "*" || c === "_" || c === "~"))
      return this.emphasis(at, closing);
    if (depth === 0 && c === "[") return this.link(at, closing);
    return null;
  }

  emphasis(at, closing) {
    const { source } = this;
    const c = source[at];
    const double = source[at + 1] === c;
    if ((c === "~" && !double) || (c === "_" && double)) return null; // __init__ is a name, too.
    const mark = double ? c + c : c;
    const from = at + mark.length;
    if (c === "_" && /\w/.test(source[at - 1] ?? "")) return null; // snake_case is a word.
    if (/\s/.test(source[from] ?? " ")) return null;
    const to = closing(mark, from + 1);
    if (to < 0 || /\s/.test(source[to - 1])) return null;
    const element = el(c === "~" ? "s" : double ? "strong" : "em");
    return { element, from, to, next: to + mark.length };
  }

  link(at, closing) {
    const middle = closing("](", at + 1);
    const close = middle < 0 ? -1 : closing(")", middle + 2);
    if (close < 0) return null;
    const address = this.source.slice(middle + 2, close).trim();
    if (!/^https?:\/\/[^\s"<>]{1,2000}$/.test(address)) return null; // Nothing else is followed.
    const element = el(
      "a", { href: address, target: "_blank", rel: "noopener noreferrer nofollow", title: address }
    );
    return { element, from: at + 1, to: middle, next: close + 1 };
  }
}

// Shows a text that grows. Blocks that stay as they are keep their elements.
export class MarkdownView {
  constructor(element) {
    this.element = element;
    this.shown = [];
  }

  // write: makes the nodes of source[start, end). settled: tokens before this place do not change.
  update(source, write, settled = source.length) {
    const renderer = new Renderer(source, write);
    const blocks = renderer.blocks(linesOf(source), 0);
    const same = (a, b) => a && a.start === b.start && a.end === b.end && b.end < a.settled;
    let keep = 0;
    while (keep < blocks.length - 1 && same(this.shown[keep], blocks[keep])) ++keep;
    for (const old of this.shown.splice(keep)) old.node.remove();
    for (const { start, end, make } of blocks.slice(keep)) {
      const node = make();
      this.element.append(node);
      this.shown.push({ start, end, node, settled });
    }
  }
}
