// One answer as it comes: chunks of the stream become a message.
import * as api from "./api.js";
import { TokenPlaces } from "./tokens.js";

// Adds the pieces of calls to those that are there.
function addCalls(message, pieces) {
  message.calls ??= [];
  for (const piece of pieces) {
    const call = (message.calls[piece.index] ??= { id: piece.id, name: "", arguments: "" });
    call.name += piece.function?.name ?? "";
    call.arguments += piece.function?.arguments ?? "";
  }
}

function take(message, places, chunk) {
  const choice = chunk.choices?.[0];
  if (choice) {
    const { content, reasoning_content: reasoning, tool_calls: calls } = choice.delta ?? {};
    message.reasoning = (message.reasoning ?? "") + (reasoning ?? "");
    message.content += content ?? "";
    if (calls) addCalls(message, calls);
    places.add(choice.logprobs?.content, (reasoning ?? "") + (content ?? ""));
    message.tokens = places.tokens;
    if (choice.finish_reason)
      Object.assign(
        message.stats,
        { finish: choice.finish_reason, seed: choice.seed, reproducible: choice.reproducible }
      );
  }
  if (chunk.usage)
    Object.assign(
      message.stats,
      {
        tokens: chunk.usage.completion_tokens,
        total: chunk.usage.total_tokens,
        speculation: chunk.usage.speculation
      }
    );
}

// Counts until the server's own counts come.
function measure(stats, began, first, count) {
  const now = performance.now();
  if (first) stats.first = (first - began) / 1000;
  stats.tokens = Math.max(stats.tokens ?? 0, count);
  if (first && now > first && stats.tokens > 1)
    stats.rate = (1000 * (stats.tokens - 1)) / (now - first);
}

// What is known of the last answer, of whichever view.
export const latest = {
  stats: null
};

// Fills the message from the answer to a request. changed: called after each chunk. Errors are
// thrown, with what had come in the message.
export async function receive(message, body, signal, changed) {
  const places = new TokenPlaces();
  const began = performance.now();
  let first = 0;
  message.stats = {};
  latest.stats = message.stats;
  for await (const chunk of api.chat(body, signal)) {
    take(message, places, chunk);
    if (!first && (message.content || message.reasoning || message.calls))
      first = performance.now();
    const delta = chunk.choices?.[0];
    if (delta || chunk.usage) measure(message.stats, began, first, places.tokens.length);
    changed();
  }
}
