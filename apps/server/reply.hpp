// What all kinds of answers to a request have in common.
#pragma once

#include "apps/server/chat_answer.hpp"
#include "apps/server/openai_request.hpp"
#include "apps/server/response_items.hpp"
#include "apps/server/text_places.hpp"
#include "paceline/engine.hpp"

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace paceline::apps::serve {

/// The fields that all parts of one answer have in common.
struct ReplyHead {
  std::string id; ///< "cmpl-...", "chatcmpl-..." or "resp_..."
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
  std::optional<TokenId> stop_token;  ///< The requested stop token that ended it.
  std::optional<TokenId> last_token;  ///< The last token so far.
  std::string tail;                   ///< Text that its end appends.
  TextPlaces places;                  ///< Places of the tokens whose logprobs come next.
  bool begun = false;                 ///< Whether a part of it went out.
  bool has_special = false;           ///< Whether its text has special tokens.
  std::optional<ChatAnswer> chat;     ///< A chat's text, if it may have more than content.
  std::optional<ResponseItems> items; ///< A response's text.

  /// Returns about how many bytes of JSON its text and its scores are.
  std::size_t json_bytes() const;
};

/// Writes the answers to one request.
class Reply {
public:
  /// engine, asked: must outlive this.
  Reply(const Engine& engine, const Asked& asked, ReplyHead head)
      : engine_(engine), asked_(asked), head_(std::move(head)) {}
  virtual ~Reply() = default;

  /// Returns the whole answer.
  virtual boost::json::object whole(std::vector<Choice>& choices) = 0;

  // The functions below return server-sent events.
  /// Returns what was generated; the first part of a choice also has what stands before it.
  virtual std::string part(Choice& choice, const Delta& delta) = 0;
  virtual std::string end(Choice& choice) = 0;
  /// Follows after all choices: the counts, if they are wanted, and the end.
  virtual std::string epilogue(const std::vector<Choice>& choices) = 0;
  /// Tells the client why a stream cannot go on, and ends it. choice: one of the request's.
  virtual std::string failure(Choice& choice, const ApiError& error) = 0;

protected:
  const Engine& engine_;
  const Asked& asked_;
  const ReplyHead head_;
};

/// What the choices of one request took. Prompts count once, however many answers they have.
struct Counts {
  Usage usage;
  SpeculationStats speculation;
};
/// n: choices of one prompt.
Counts counts_of(const std::vector<Choice>& choices, int n);

/// Adds what says how an answer was drawn: its seed, the rule, and whether both give it again.
void add_origin(boost::json::object& to, const Finished& end);

} // namespace paceline::apps::serve
