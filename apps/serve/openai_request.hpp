// OpenAI's request bodies, as the engine's own Request.
#pragma once

#include "apps/serve/errors.hpp"
#include "paceline/chat.hpp"
#include "paceline/request.hpp"

#include <boost/json/object.hpp>
#include <string>
#include <variant>
#include <vector>

namespace paceline::apps::serve {

enum class Api { completions, chat };

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
  bool include_usage = false; ///< Of a stream.
  bool echo = false;          ///< The prompt before its answer.

  int choices() const { return n * (api == Api::chat ? 1 : int(prompts.size())); }
};

/// Of POST /v1/completions and /v1/chat/completions. Known fields that are not supported are
/// errors unless their value changes nothing; unknown ones are ignored.
/// defaults: what a body does not say. vocabulary: ids go from 0 to below it.
ApiResult<Asked> read_request(Api api, const boost::json::object& body, const Request& defaults,
                              int vocabulary);

/// messages: [{"role", "content"}], as in a chat's request.
ApiResult<std::vector<ChatMessage>> read_messages(const boost::json::object& body);

/// A list of ids, such as a prompt; `name`: the field it is in.
ApiResult<std::vector<TokenId>> read_ids(const boost::json::value& list, const std::string& name,
                                         int vocabulary);

} // namespace paceline::apps::serve
