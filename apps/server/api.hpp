// The kinds of request for a text in OpenAI's API.
#pragma once

namespace paceline::apps::serve {

enum class Api { completions, chat, responses };

/// Whether a request has a conversation, which the model's template renders.
constexpr bool has_conversation(Api api) {
  return api != Api::completions;
}

} // namespace paceline::apps::serve
