// OpenAI's request bodies, read into the engine's own Request.
#pragma once

#include "apps/server/api.hpp"
#include "apps/server/errors.hpp"
#include "apps/server/fields.hpp"
#include "apps/server/tool_fields.hpp"
#include "paceline/chat.hpp"
#include "paceline/request.hpp"

#include <boost/json/object.hpp>
#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace paceline::apps::serve {

/// A text, or ids that are taken as they are.
using Prompt = std::variant<std::string, std::vector<TokenId>>;

/// The contents of one HTTP request.
struct Asked {
  Api api = Api::completions;
  std::string model;                 ///< Name of the model; empty: the one that is served.
  std::vector<Prompt> prompts;       ///< Prompts of completions, each of which has `n` answers.
  std::vector<ChatMessage> messages; ///< Messages of a conversation.
  Request request;                   ///< The engine's request without its prompt.
  int n = 1;
  bool stream = false;
  bool sources = false;       ///< Whether log-probabilities in a stream say who wrote each token.
  bool include_usage = false; ///< Whether a stream ends with the counts.
  bool echo = false;          ///< Whether the prompt stands before its answer.
  bool include_stop = false;  ///< The text keeps the stop string or token that ended it.
  int top_logprobs = 0;       ///< Alternatives for the output; the prompt may have more.
  std::optional<int> prompt_logprobs; ///< Alternatives for the prompt alone.
  std::string form_field;             ///< The field that named the request's constraint.
  std::vector<std::string> bad_words; ///< Never in the output; each must be one token.

  bool add_special = true;            ///< Whether the tokenizer adds its tokens before a prompt.
  std::optional<int> truncate_prompt; ///< Number of last tokens to keep; -1: as many as fit.
  ChatOptions chat;                   ///< Options of a chat; add_special is the field above.
  Tools tools;                        ///< Functions that a chat's answer may call.
  boost::json::object echoed;         ///< Fields of a response's request that its answer repeats.
  std::size_t echoed_bytes = 0;       ///< Memory that they take.

  int choices() const { return n * (has_conversation(api) ? 1 : int(prompts.size())); }
  /// Returns the memory that it takes of the client's data.
  std::size_t bytes() const;
  /// Returns the memory of the names in it, which stay as long as the request does.
  std::size_t name_bytes() const;
};

/// Reads the body of POST /v1/completions, /v1/chat/completions or /v1/responses. Known fields that
/// are not supported are errors unless their value changes nothing; unknown ones are ignored.
/// defaults: values of the fields that a body does not have. vocabulary: ids go from 0 to below it.
ApiResult<Asked> read_request(Api api, const boost::json::object& body, const Request& defaults,
                              int vocabulary);

/// Reads the conversation of a chat's or a response's request, which `asked.api` tells: messages,
/// and what the template is given besides. fields: the body's.
void read_conversation(Fields& fields, Asked& asked, const boost::json::object& body);

/// Reads a list of ids, such as a prompt. name: the field it is in.
ApiResult<std::vector<TokenId>> read_ids(const boost::json::value& list, const std::string& name,
                                         int vocabulary);

} // namespace paceline::apps::serve
