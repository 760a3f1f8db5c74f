// The settings of requests: a dialog, and the fields that a request gets from them.
import { key } from "./api.js";
import { el } from "./dom.js";
import { defaults, saveSettings, settings } from "./store.js";

// Numbers that a request has under the same name: label, bounds, what an empty field means.
const numbers = [
  ["temperature", "Temperature", { min: 0, max: 100, step: "any" }, "the model's own"],
  ["top_p", "Top-p", { min: 0, max: 1, step: "any" }, "the model's own"],
  ["top_k", "Top-k", { min: -1, step: 1 }, "the model's own"],
  ["max_tokens", "Most tokens", { min: 1, step: 1 }, "what the context leaves"],
  ["seed", "Seed", { step: 1 }, "drawn anew"],
  ["window", "Window", { min: 1, max: 32, step: 1 }, "adapted"],
];

const choices = [
  [
    "mode",
    "Speculation",
    [
      ["", "as the server says"],
      ["auto", "auto"],
      ["off", "off: the target alone"],
      ["sync", "sync: in turns"],
      ["overlap", "overlap: at once"]
    ]
  ],
  [
    "verify",
    "Rule",
    [
      ["", "as the server says"],
      ["auto", "auto"],
      ["rejection", "rejection"],
      ["coupled", "coupled"],
      ["match", "match"]
    ]
  ],
  [
    "shift",
    "A full context",
    [
      ["", "ends the conversation"],
      ["on", "lets the oldest messages go"]
    ]
  ],
];

export class SettingsError extends Error {}

// Returns the fields of a chat's request that the settings give. mode: goes before the setting's.
export function requestFields(mode = settings.mode) {
  const fields = { stream: true, stream_options: { include_usage: true } };
  if (settings.model) fields.model = settings.model;
  for (const [name] of numbers)
    if (name !== "window" && settings[name] !== "") fields[name] = Number(settings[name]);
  const speculation = {};
  if (mode) speculation.mode = mode;
  if (settings.verify) speculation.verify = settings.verify;
  if (settings.window !== "") speculation.window = Number(settings.window);
  if (settings.tokens) {
    Object.assign(fields, { logprobs: true, top_logprobs: 5 });
    speculation.sources = true;
  }
  if (Object.keys(speculation).length > 0) fields.speculation = speculation;
  if (settings.tools.trim() !== "") fields.tools = readTools();
  return fields;
}

function readTools() {
  try {
    return JSON.parse(settings.tools);
  } catch (error) {
    throw new SettingsError(`The functions in the settings are no JSON: ${error.message}`);
  }
}

function field(label, input, hint) {
  return el(
    "label", { class: "field" }, el("span", {}, label), input, hint ? el("small", {}, hint) : null
  );
}

function inputFor(name, properties) {
  return el("input", {
    type: "number",
    value: settings[name],
    inputMode: "decimal",
    ...properties,
    onchange: (event) => {
      const input = event.target;
      if (!input.reportValidity()) return;
      settings[name] = input.value;
      saveSettings();
    }
  });
}

function areaFor(name, rows, placeholder) {
  return el("textarea", {
    value: settings[name],
    rows,
    placeholder,
    onchange: (event) => {
      settings[name] = event.target.value;
      saveSettings();
    }
  });
}

function selectFor(name, options) {
  const select = el(
    "select",
    {
      onchange: () => {
        settings[name] = select.value;
        saveSettings();
      }
    },
    ...options.map(([value, text]) => el("option", { value }, text))
  );
  select.value = settings[name];
  return select;
}

// Opens the dialog. changed: called when it has been closed.
export function openSettings(changed) {
  const tokens = el("input", {
    type: "checkbox",
    checked: settings.tokens,
    onchange: () => {
      settings.tokens = tokens.checked;
      saveSettings();
    }
  });
  const dialog = el(
    "dialog",
    { class: "settings", "aria-labelledby": "settings-title" },
    el(
      "form",
      { method: "dialog" },
      el("h2", { id: "settings-title" }, "Settings"),
      field("System prompt", areaFor("system", 3, "none")),
      el(
        "div",
        { class: "grid" },
        ...numbers.map(
          ([name, label, bounds, empty]) =>
            field(label, inputFor(name, {...bounds, placeholder: empty }))
        ),
        ...choices.map(([name, label, options]) => field(label, selectFor(name, options)))
      ),
      el(
        "label",
        { class: "check" },
        tokens,
        " Shade accepted draft tokens, and show what else was likely"
      ),
      el(
        "details",
        {},
        el("summary", {}, "Functions that the model may call"),
        field(
          "JSON, as OpenAI's tools",
          areaFor("tools", 6, "[{\"type\": \"function\", \"function\": {…}}]")
        )
      ),
      el(
        "menu",
        {},
        el(
          "button",
          {
            type: "button",
            class: "quiet",
            onclick: () => {
              Object.assign(settings, defaults, { model: settings.model });
              saveSettings();
              dialog.close();
            }
          },
          "Reset"
        ),
        el("button", { type: "submit" }, "Done")
      )
    )
  );
  dialog.addEventListener("close", () => {
    dialog.remove();
    changed();
  });
  document.body.append(dialog);
  dialog.showModal();
}

// Asks for an API key; resolves when one was given (true), or not (false).
export function askForKey(why) {
  return new Promise((resolve) => {
    const input =
      el("input", { type: "password", autocomplete: "off", required: true, id: "api-key" });
    const dialog = el(
      "dialog",
      { "aria-labelledby": "key-title" },
      el(
        "form",
        { method: "dialog", onsubmit: () => key.set(input.value.trim()) },
        el("h2", { id: "key-title" }, "API key"),
        el("p", {}, why),
        field("Key", input, "It is kept until this tab is closed."),
        el(
          "menu",
          {},
          el(
            "button",
            { type: "button", class: "quiet", onclick: () => dialog.close("cancel") },
            "Cancel"
          ),
          el("button", { type: "submit", value: "key" }, "Use it")
        )
      )
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "key");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
