// The kind of reply that a request gets.
#pragma once

#include "apps/server/reply.hpp"

#include <memory>

namespace paceline::apps::serve {

/// engine: must outlive what is returned.
std::unique_ptr<Reply> reply_to(const Asked& asked, const Engine& engine, ReplyHead head);

} // namespace paceline::apps::serve
