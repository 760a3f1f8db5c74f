// Conversations and settings, kept in this browser alone, within bounds: where they are reached the
// oldest conversations go.
const conversationsMax = 50;
const charactersMax = 2_000_000; // Browsers allow about five million.
const prefix = "paceline.";

export const defaults = {
  model: "",
  system: "",
  temperature: "",
  top_p: "",
  top_k: "",
  max_tokens: "",
  seed: "",
  mode: "",
  window: "",
  verify: "",
  tools: "",
  shift: "",
  tokens: true,
};

function read(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(prefix + name)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

function write(name, value) {
  try {
    localStorage.setItem(prefix + name, JSON.stringify(value));
    return true;
  } catch {
    return false; // There is no room, or storage is off: the page works on without it.
  }
}

export const settings = {
  ...defaults,
  ...read("settings", {})
};

export function saveSettings() {
  write("settings", settings);
}

// Alternatives of tokens are many and not kept; who wrote each token is.
function lean(message) {
  const tokens = message.tokens?.map(({ start, end, source }) => ({ start, end, source }));
  return {...message, tokens };
}

// All conversations, newest first: { id, title, at, messages }.
export const conversations =
  read("conversations", []).filter((one) => Array.isArray(one?.messages));

export function saveConversations() {
  conversations.sort((a, b) => b.at - a.at);
  const kept = [];
  let characters = 0;
  for (const one of conversations.slice(0, conversationsMax)) {
    if (one.messages.length === 0) continue;
    const copy = {...one, messages: one.messages.map(lean) };
    characters += JSON.stringify(copy).length;
    if (characters > charactersMax && kept.length > 0) break;
    kept.push(copy);
  }
  while (!write("conversations", kept) && kept.length > 0) kept.pop();
}

export function newConversation() {
  const one = {
    id: crypto.getRandomValues(new Uint32Array(2)).join("-"),
    title: "New conversation",
    at: Date.now(),
    messages: []
  };
  conversations.unshift(one);
  return one;
}

export function removeConversation(one) {
  conversations.splice(conversations.indexOf(one), 1);
  saveConversations();
}
