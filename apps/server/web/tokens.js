// Which part of an answer's text each token wrote, and how likely it was.

// Finds the place of each token in a text that grows with them. A token that is not in the text,
// such as a mark around reasoning or the end of the text, has no place.
export class TokenPlaces {
  constructor() {
    this.tokens = []; // { start, end, source, name, logprob, top }
    this.text = "";
    this.waiting = []; // Tokens whose text has not come yet.
    this.at = 0;
    this.decoder = new TextDecoder(); // A character may be written by several tokens.
  }

  // entries: the log-probabilities of a chunk; text: what it adds to the answer.
  add(entries, text) {
    this.text += text;
    for (const entry of entries ?? [])
      this.waiting.push(
        {...entry, part: this.decoder.decode(new Uint8Array(entry.bytes ?? []), { stream: true }) }
      );
    while (this.waiting.length > 0 && this.#place(this.waiting[0])) this.waiting.shift();
  }

  // Returns false while it cannot be known where the token stands.
  #place(token) {
    const rest = this.text.slice(this.at, this.at + token.part.length + farthest);
    if (rest.length < token.part.length && token.part.startsWith(rest)) return false;
    const skipped = rest.startsWith(token.part)  ? 0
                  : token.part.trim().length > 1 ? rest.indexOf(token.part)
                                                 : -1;
    if (token.part === "" || skipped < 0) return true;
    const start = this.at + skipped;
    this.at = start + token.part.length;
    this.tokens.push({
      start,
      end: this.at,
      source: token.source,
      name: token.token,
      logprob: token.logprob,
      top: token.top_logprobs
    });
    return true;
  }
}

const farthest = 64; // So much of the text may come of tokens that were not understood.

// Returns the index of the first token that ends behind the place.
export function firstBehind(tokens, place) {
  let low = 0;
  let high = tokens.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (tokens[middle].end <= place)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

export function percent(logprob) {
  const share = 100 * Math.exp(logprob);
  return share >= 99.95 ? "100 %" : share >= 0.1 ? `${share.toFixed(1)} %` : "< 0.1 %";
}

// A token's text with its blanks to be seen.
export function visible(text) {
  return text.replaceAll("\n", "⏎").replaceAll("\t", "⇥").replaceAll(" ", "␣") || "∅";
}

export const sourceNames = {
  target: "written by the target",
  draft: "drafted and accepted",
  lookahead: "drafted while the window before was judged, and accepted",
};
