// Answers as OpenAI's API has them: one object, or chunks of a stream.
#pragma once

#include "apps/server/openai_request.hpp"
#include "apps/server/text_places.hpp"
#include "paceline/engine.hpp"

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::apps::serve {

/// What all parts of one answer have in common.
struct ReplyHead {
  std::string id; ///< "cmpl-..." or "chatcmpl-..."
  std::int64_t created = 0;
  std::string model;
  std::string fingerprint;
};

/// One choice of an answer, as it grows.
struct Choice {
  std::size_t index = 0;
  std::string echo; ///< The prompt, where it is wanted before its answer.
  std::optional<PromptLogprobs> prompt;
  Completion answer;
  std::optional<TokenId> stop_token; ///< That ended it, of those that were asked for.
  std::optional<TokenId> last_token; ///< So far.
  std::string tail;                  ///< What its end adds to its text.
  TextPlaces places;                 ///< Of the tokens whose logprobs come next.
  bool begun = false;                ///< A chunk of it went out.
};

class Reply {
public:
  /// engine: must outlive this.
  Reply(const Engine& engine, const Asked& asked, ReplyHead head);

  /// The whole answer.
  boost::json::object whole(std::vector<Choice>& choices) const;

  // Server-sent events, each "data: ...\n\n".
  /// What was generated; for the first part of a choice, what stands before it too.
  std::string part(Choice& choice, const Delta& delta) const;
  std::string end(Choice& choice) const;
  /// After all choices: the counts where they are wanted, and the end.
  std::string epilogue(const std::vector<Choice>& choices) const;
  /// A stream that cannot go on says why.
  static std::string failure(const ApiError& error);

private:
  boost::json::object object(const char* kind) const;
  void add_usage(boost::json::object& reply, const std::vector<Choice>& choices) const;
  std::string event(boost::json::object choice) const;
  std::string opening(Choice& choice) const;
  boost::json::object chunk(const Choice& choice, std::string_view text,
                            boost::json::value logprobs, bool with_role) const;
  boost::json::value logprobs(Choice& choice, const std::vector<TokenLogprob>& tokens) const;
  boost::json::value echoed_logprobs(Choice& choice) const;
  boost::json::object chat_logprobs(const std::vector<TokenLogprob>& tokens) const;
  boost::json::array prompt_scores(const PromptLogprobs& prompt) const;
  boost::json::object completion_logprobs(const std::vector<TokenLogprob>& tokens,
                                          const std::vector<std::size_t>& places) const;
  boost::json::object chat_token(TokenId id, float logprob) const;
  std::string part_of(std::string_view text, TokenId id) const;

  const Engine* engine_;
  Api api_;
  int n_;
  bool logprobs_;
  bool echo_;
  bool skip_special_;
  int top_logprobs_;
  std::optional<int> prompt_logprobs_;
  bool include_usage_;
  ReplyHead head_;
};

} // namespace paceline::apps::serve
