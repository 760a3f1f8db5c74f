// What the model might have written instead: a card for the token under the pointer.
import { el } from "./dom.js";
import { percent, sourceNames, visible } from "./tokens.js";

const card = el("div", { class: "card", role: "tooltip", hidden: true });

function fill(token, text) {
  card.replaceChildren(el(
    "p", { class: `by ${token.source ?? ""}` }, token.source ? sourceNames[token.source] : "a token"
  ));
  const options = [...(token.top ?? [])];
  if (!options.some((one) => one.token === text) && token.logprob !== undefined)
    options.push({ token: text, logprob: token.logprob });
  if (options.length === 0) return;
  const rows = options.map(({ token: name, logprob }) => {
    const bar = el("i", {});
    bar.style.width = `${Math.max(1, 100 * Math.exp(logprob))}%`;
    return el(
      "li",
      { class: name === text ? "chosen" : "" },
      el("code", {}, visible(name)),
      el("span", {}, percent(logprob)),
      bar
    );
  });
  card.append(el("ol", {}, ...rows));
}

function place(target) {
  card.hidden = false;
  const at = target.getClientRects()[0] ?? target.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = card;
  card.style.left = `${Math.max(8, Math.min(at.left, innerWidth - width - 8))}px`;
  card.style.top =
    `${Math.max(8, at.bottom + height + 8 < innerHeight ? at.bottom + 4 : at.top - height - 4)}px`;
}

// Shows the card for tokens inside `element`. tokensOf: finds the tokens of an element's message.
export function watchTokens(element, tokensOf) {
  document.body.append(card);
  const hide = () => (card.hidden = true);
  const show = (event) => {
    const target = event.target.closest?.(".t");
    const token = target && tokensOf(target)?.[target.dataset.token];
    if (!token?.source && !token?.top) return hide();
    fill(token, token.top ? token.name : target.textContent);
    place(target);
  };
  element.addEventListener("pointerover", show);
  element.addEventListener("click", show); // A finger does not hover.
  element.addEventListener("pointerleave", hide);
  document.addEventListener("scroll", hide, true);
  document.addEventListener("keydown", hide);
}
