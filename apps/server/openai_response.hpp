// Answers as OpenAI's API has them: one object, or chunks of a stream.
#pragma once

#include "apps/server/chat_answer.hpp"
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

/// The fields that all parts of one answer have in common.
struct ReplyHead {
  std::string id; ///< "cmpl-..." or "chatcmpl-..."
  std::int64_t created = 0;
  std::string model;
  std::string fingerprint;
};

/// One choice of an answer, which grows with the engine's events.
struct Choice {
  std::size_t index = 0;
  std::string echo; ///< The prompt, if the client wants it before the answer.
  std::optional<PromptLogprobs> prompt;
  Completion answer;
  std::optional<TokenId> stop_token; ///< The requested stop token that ended it.
  std::optional<TokenId> last_token; ///< The last token so far.
  std::string tail;                  ///< Text that its end appends.
  TextPlaces places;                 ///< Places of the tokens whose logprobs come next.
  bool begun = false;                ///< Whether a chunk of it went out.
  std::optional<ChatAnswer> chat;    ///< Takes the text apart, if it may have more than content.
};

class Reply {
public:
  /// engine: must outlive this.
  Reply(const Engine& engine, const Asked& asked, ReplyHead head);

  /// Returns the whole answer.
  boost::json::object whole(std::vector<Choice>& choices) const;

  // The functions below return server-sent events, each "data: ...\n\n".
  /// Returns what was generated; the first part of a choice also has what stands before it.
  std::string part(Choice& choice, const Delta& delta) const;
  std::string end(Choice& choice) const;
  /// Follows after all choices: the counts, if they are wanted, and the end.
  std::string epilogue(const std::vector<Choice>& choices) const;
  /// Tells the client why a stream cannot go on.
  static std::string failure(const ApiError& error);

private:
  boost::json::object object(const char* kind) const;
  void add_usage(boost::json::object& reply, const std::vector<Choice>& choices) const;
  std::string event(boost::json::object choice) const;
  std::string opening(Choice& choice) const;
  std::string parts_event(const Choice& choice, boost::json::object parts,
                          boost::json::value logprobs) const;
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
  bool sources_; ///< Whether they say who wrote each token.
  bool echo_;
  bool skip_special_;
  int top_logprobs_;
  std::optional<int> prompt_logprobs_;
  bool include_usage_;
  ReplyHead head_;
};

} // namespace paceline::apps::serve
