#include "apps/server/reply_kinds.hpp"

#include "apps/server/openai_response.hpp"
#include "apps/server/response_reply.hpp"

#include <utility>

namespace paceline::apps::serve {

std::unique_ptr<Reply> reply_to(const Asked& asked, const Engine& engine, ReplyHead head) {
  if (asked.api == Api::responses)
    return std::make_unique<ResponseReply>(engine, asked, std::move(head));
  return std::make_unique<CompletionReply>(engine, asked, std::move(head));
}

} // namespace paceline::apps::serve
