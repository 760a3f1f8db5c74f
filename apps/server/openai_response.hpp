// Answers to completions and chats as OpenAI's API has them: one object, or chunks of a stream.
#pragma once

#include "apps/server/reply.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::apps::serve {

class CompletionReply final : public Reply {
public:
  using Reply::Reply;

  boost::json::object whole(std::vector<Choice>& choices) override;
  std::string part(Choice& choice, const Delta& delta) override;
  std::string end(Choice& choice) override;
  std::string epilogue(const std::vector<Choice>& choices) override;
  std::string failure(Choice& choice, const ApiError& error) override;

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
  std::string part_of(std::string_view text, TokenId id) const;
};

} // namespace paceline::apps::serve
