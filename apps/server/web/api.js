// What the page asks the server: models, streams of chats, the timeline. An API key is kept for as
// long as the tab lives, and goes nowhere but to this server.
const keyName = "paceline.key";

export const key = {
  get: () => sessionStorage.getItem(keyName) ?? "",
  set: (value) => sessionStorage.setItem(keyName, value),
};

// A refusal by the server: its own words, and its HTTP status. Status 0: nobody answers.
export class ApiError extends Error {
  constructor(status, message, code = "") {
    super(message);
    this.status = status;
    this.code = code;
  }
}

function headers() {
  const all = { "Content-Type": "application/json" };
  if (key.get()) all.Authorization = `Bearer ${key.get()}`;
  return all;
}

async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, {...options, headers: headers() });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The server does not answer.");
  }
  if (response.ok) return response;
  let problem = {};
  try {
    problem = (await response.json()).error ?? {};
  } catch {
    // Something between here and the server answered, and not in its words.
  }
  throw new ApiError(
    response.status, problem.message ?? `The server answered ${response.status}.`, problem.code
  );
}

let listed = [];

export async function models() {
  listed = (await (await ask("/v1/models")).json()).data;
  return listed;
}

// The context of a model in tokens; empty: the first one's. Nothing where the server did not say.
export function contextOf(model) {
  return listed.find(({ id }) => id === model || !model)?.max_model_len ?? null;
}

// Resolves to the tokens that a chat's request has, and to the model's context.
export async function countTokens({ model, messages, tools }, signal) {
  const body = JSON.stringify({ model, messages, tools });
  const reply = await (await ask("/tokenize", { method: "POST", body, signal })).json();
  return { count: reply.count, context: reply.max_model_len };
}

// Whether the server takes requests now.
export async function ready() {
  try {
    return (await fetch("/ready")).ok;
  } catch {
    return false;
  }
}

// Yields what each server-sent event holds, until [DONE] or the end.
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    let piece;
    try {
      piece = await reader.read();
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError(0, "The connection ended before the answer did.");
    }
    if (piece.done) return;
    const parts = (rest + piece.value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      if (!part.startsWith("data: ")) continue; // A comment keeps the connection awake.
      const data = part.slice("data: ".length);
      if (data === "[DONE]") return;
      yield JSON.parse(data);
    }
  }
}

// Yields the chunks of a chat's answer. Throws ApiError where the answer fails, also half-way.
export async function* chat(body, signal) {
  const response =
    await ask("/v1/chat/completions", { method: "POST", body: JSON.stringify(body), signal });
  let ended = false;
  for await (const chunk of events(response)) {
    if (chunk.error) throw new ApiError(500, chunk.error.message, chunk.error.code);
    ended ||= chunk.choices?.some((choice) => choice.finish_reason);
    yield chunk;
  }
  if (!ended) throw new ApiError(0, "The connection ended before the answer did.");
}

// Yields what the lanes of the server's engines have done, as it happens.
export async function* timeline(signal) {
  yield* events(await ask("/v1/timeline", { signal }));
}
