// OpenAI's request bodies, as the engine's own Request.
#pragma once

#include "apps/server/api.hpp"
#include "apps/server/errors.hpp"
#include "apps/server/fields.hpp"
#include "paceline/chat.hpp"
#include "paceline/request.hpp"

#include <boost/json/object.hpp>
#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace paceline::apps::serve {

/// Text, or ids that are taken as they are.
using Prompt = std::variant<std::string, std::vector<TokenId>>;

/// What one HTTP request asks for.
struct Asked {
  Api api = Api::completions;
  std::string model;                 ///< Empty: whatever is served.
  std::vector<Prompt> prompts;       ///< Of completions; each has `n` answers.
  std::vector<ChatMessage> messages; ///< Of a chat.
  Request request;                   ///< All but the prompt.
  int n = 1;
  bool stream = false;
  bool include_usage = false;         ///< Of a stream.
  bool echo = false;                  ///< The prompt before its answer.
  bool include_stop = false;          ///< The stop string, or token, in the text that it ends.
  int top_logprobs = 0;               ///< Of the output; the request's may be more, for its prompt.
  std::optional<int> prompt_logprobs; ///< Of the prompt, for itself.
  std::string form_field;             ///< Which field named the request's constraint.
  std::vector<std::string> bad_words; ///< Never in the output; each must be one token.

  bool add_special = true;            ///< What the tokenizer puts before a prompt.
  std::optional<int> truncate_prompt; ///< To so many of its last tokens; -1: to what fits.
  ChatOptions chat;                   ///< Of a chat, but for add_special.

  int choices() const { return n * (api == Api::chat ? 1 : int(prompts.size())); }
  /// Memory that its prompts and its form take.
  std::size_t bytes() const;
};

/// Of POST /v1/completions and /v1/chat/completions. Known fields that are not supported are
/// errors unless their value changes nothing; unknown ones are ignored.
/// defaults: what a body does not say. vocabulary: ids go from 0 to below it.
ApiResult<Asked> read_request(Api api, const boost::json::object& body, const Request& defaults,
                              int vocabulary);

/// What a chat's request says of its conversation: messages, and what the template is told besides.
/// fields: the body's.
void read_conversation(Fields& fields, Asked& asked, const boost::json::object& body);

/// A list of ids, such as a prompt; `name`: the field it is in.
ApiResult<std::vector<TokenId>> read_ids(const boost::json::value& list, const std::string& name,
                                         int vocabulary);

} // namespace paceline::apps::serve
