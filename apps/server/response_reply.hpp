// Answers as OpenAI's /v1/responses has them: one object, or events of a stream.
#pragma once

#include "apps/server/reply.hpp"

namespace paceline::apps::serve {

class ResponseReply final : public Reply {
public:
  using Reply::Reply;

  boost::json::object whole(std::vector<Choice>& choices) override;
  std::string part(Choice& choice, const Delta& delta) override;
  std::string end(Choice& choice) override;
  std::string epilogue(const std::vector<Choice>& choices) override;
  std::string failure(Choice& choice, const ApiError& error) override;

private:
  boost::json::object object(const char* status, const boost::json::array& output) const;
  boost::json::object ended(const std::vector<Choice>& choices) const;
  boost::json::object usage(const std::vector<Choice>& choices) const;
  void score(Choice& choice, const std::vector<TokenLogprob>& tokens,
             const std::vector<TokenSource>& sources) const;
  std::string event(boost::json::object event);
  std::string events(ResponseItems::Events events);
  std::string lifecycle(const char* type, boost::json::object response);
  std::string opening(Choice& choice);

  int sequence_ = 0; ///< Number of the next event.
};

} // namespace paceline::apps::serve
