// A conversation that fills the model's context: what the model reads of it. `first` of a
// conversation is the first message that it reads; those before it stay on the page alone.
const parts = 4; // An answer has room in one of so many parts of the context.

export function firstRead(conversation) {
  return conversation.first ?? 0;
}

// Lets the model no longer read the oldest messages where its context has no room for an answer,
// until half of it is free, as `paceline chat --context-shift` does. Where what is left has no room
// either, nothing is changed. most: the tokens of an answer, 0: any. count(first): resolves to
// { count, context }: the tokens that the model reads from that message on, and its context.
// Resolves to the first message that the model reads from now on.
export async function firstWithRoom(conversation, most, count) {
  const { messages } = conversation;
  let first = firstRead(conversation);
  const { count: tokens, context } = await count(first);
  if (tokens + Math.min(most || context, context / parts) <= context) return first;
  for (let left = tokens; left > context / 2;) {
    const next = messages.findIndex(({ role }, at) => at > first && role === "user");
    if (next < 0) return left < context ? first : firstRead(conversation);
    first = next;
    left = (await count(first)).count;
  }
  return first;
}
