// What a hub's refusals mean, and how to mend them.
#include "apps/terminal/pull/hub.hpp"

#include <fmt/format.h>

namespace paceline::apps::pull {
namespace {

/// Which of the hub's answers; its "X-Error-Code" says more than its status.
bool says(const Reply& reply, const char* code) {
  return reply.header("x-error-code") == code;
}

Error unreachable(const HubAccess& access, const Reply& reply) {
  return {
      ErrorCode::unavailable,
      fmt::format("cannot fetch from {} ({})", access.endpoint, reply.problem),
      reply.ending == Reply::Ending::untrusted
          ? "install ca-certificates, or name a file of authorities with SSL_CERT_FILE"
          : "check the network and HF_ENDPOINT; the same command goes on with what has arrived"};
}

/// 401 and 403: for the hub, a model that is not there and one that is private are the same.
Error forbidden(const HubAccess& access, const HubModel& model, const Reply& reply) {
  const std::string page = fmt::format("{}/{}", access.endpoint, model.id);
  const std::string status = fmt::format("HTTP {}", reply.status);
  if (says(reply, "GatedRepo") || (reply.status == 403 && !access.token.empty()))
    return {ErrorCode::invalid_argument,
            fmt::format("{} is for those who have accepted its terms ({})", model.id, status),
            fmt::format("accept them at {}, and set HF_TOKEN to a token of that account that may "
                        "read it",
                        page)};
  if (access.token.empty())
    return {ErrorCode::invalid_argument,
            fmt::format("the hub shows no {} to everybody ({})", model.id, status),
            "check the name; for a private or gated model set HF_TOKEN"};
  return {ErrorCode::invalid_argument,
          fmt::format("the hub does not take HF_TOKEN, or shows its owner no {} ({})", model.id,
                      status),
          fmt::format("check the name, and the token at {}/settings/tokens", access.endpoint)};
}

Error missing(const HubModel& model, const Reply& reply) {
  if (says(reply, "EntryNotFound"))
    return {ErrorCode::not_found,
            fmt::format("the hub lists a file of {} that it does not have (HTTP 404)", model.id),
            "the model may be changing: try again"};
  if (says(reply, "RevisionNotFound") || model.revision != "main")
    return {ErrorCode::not_found,
            fmt::format("the hub has no revision {} of {} (HTTP 404)", model.revision, model.id),
            "check --revision: a branch, a tag or a commit"};
  return {ErrorCode::not_found, fmt::format("the hub has no {} (HTTP 404)", model.id),
          "check the name, and HF_ENDPOINT"};
}

Error busy(const HubAccess& access, const Reply& reply) {
  const std::string when =
      reply.retry_after ? fmt::format("try again in {} s", *reply.retry_after) : "try again later";
  if (reply.status == 429)
    return {ErrorCode::unavailable, "the hub takes no more requests for now (HTTP 429)",
            when + (access.token.empty() ? "; with HF_TOKEN set it takes more" : "")};
  return {ErrorCode::unavailable, fmt::format("{} fails (HTTP {})", access.endpoint, reply.status),
          when + "; what has arrived is kept"};
}

} // namespace

Error hub_error(const HubAccess& access, const HubModel& model, const Reply& reply) {
  if (reply.ending != Reply::Ending::whole)
    return unreachable(access, reply);
  switch (reply.status) {
  case 401:
  case 403: return forbidden(access, model, reply);
  case 404: return missing(model, reply);
  case 200:
  case 206:
    return {ErrorCode::unavailable, fmt::format("{} sends nothing more of a file", access.endpoint),
            "try again later; what has arrived is kept"};
  default: break;
  }
  if (reply.status == 429 || reply.status >= 500)
    return busy(access, reply);
  return {ErrorCode::unavailable, fmt::format("{} answers HTTP {}", access.endpoint, reply.status),
          "check HF_ENDPOINT, or try again later"};
}

} // namespace paceline::apps::pull
