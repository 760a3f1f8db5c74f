// Elements are made here and nowhere else. Text becomes text nodes, never markup, so that nothing a
// model writes can become a part of the page.

// Makes an element. Properties named on... are listeners, `class` and names with a hyphen are
// attributes, `data` is its dataset; all others are set as the element's own properties. Children
// are nodes or texts; null is left out.
export function el(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (key.startsWith("on"))
      element.addEventListener(key.slice(2), value);
    else if (key === "class" || key === "role" || key === "for" || key.includes("-"))
      element.setAttribute(key, value);
    else if (key === "data")
      Object.assign(element.dataset, value);
    else
      element[key] = value;
  }
  for (const child of children)
    if (child !== null && child !== undefined) element.append(child);
  return element;
}

// Calls the function before the next frame, once, however often it was asked for.
export function beforeFrame(work) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      work();
    });
  };
}

// Says something to whoever cannot see the page change.
export function announce(text) {
  let region = document.getElementById("announcer");
  if (!region) {
    region = el("div", { id: "announcer", class: "unseen", role: "status", "aria-live": "polite" });
    document.body.append(region);
  }
  region.textContent = text;
}

export async function copyText(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = el("textarea", { value: text, class: "unseen" }); // Plain HTTP has no clipboard.
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  const before = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = before), 1200);
}
