#include "apps/server/router.hpp"

#include "apps/server/admin.hpp"
#include "apps/server/endpoints.hpp"
#include "apps/server/timeline.hpp"
#include "apps/server/web.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <fmt/format.h>

namespace paceline::apps::serve {
namespace {

const std::array routes{
    Route{.method = "POST", .path = "/v1/completions", .long_running = true, .answer = completions},
    Route{.method = "POST",
          .path = "/v1/chat/completions",
          .long_running = true,
          .answer = chat_completions},
    Route{.method = "POST", .path = "/v1/responses", .long_running = true, .answer = responses},
    Route{.method = "GET", .path = "/v1/models", .answer = list_models},
    Route{.method = "GET", .path = "/v1/models/", .answer = show_model},
    Route{.method = "POST", .path = "/v1/load", .for_admin = true, .answer = load_model},
    Route{.method = "POST", .path = "/v1/unload", .for_admin = true, .answer = unload_model},
    Route{.method = "POST", .path = "/tokenize", .answer = tokenize},
    Route{.method = "POST", .path = "/detokenize", .answer = detokenize},
    Route{.method = "GET", .path = "/version", .for_everybody = true, .answer = version},
    Route{.method = "GET", .path = "/health", .for_everybody = true, .answer = health},
    Route{.method = "GET", .path = "/ready", .for_everybody = true, .answer = ready},
    Route{.method = "GET", .path = "/metrics", .for_everybody = true, .answer = metrics},
    Route{.method = "GET",
          .path = "/v1/timeline",
          .for_page = true,
          .long_running = true,
          .answer = timeline},
    Route{
        .method = "GET", .path = "/", .for_everybody = true, .for_page = true, .answer = web_page},
    Route{.method = "GET",
          .path = "/web/",
          .for_everybody = true,
          .for_page = true,
          .answer = web_file},
};

/// Paths that other servers have under OpenAI's, and that are not served here.
constexpr std::array not_served = std::to_array<std::pair<std::string_view, std::string_view>>(
    {{"/v1/embeddings", "embeddings"},
     {"/v1/responses/", "responses of former requests"},
     {"/v1/audio/", "sound"},
     {"/v1/images/", "images"},
     {"/v1/moderations", "moderations"},
     {"/v1/files", "files"},
     {"/v1/batches", "batches"},
     {"/v1/fine_tuning/", "fine-tuning"},
     {"/v1/rerank", "ranking"},
     {"/v1/score", "scores of pairs"}});

bool leads(const Route& route, std::string_view path) {
  return route.path.size() > 1 && route.path.ends_with('/')
             ? path.starts_with(route.path) && path.size() > route.path.size()
             : path == route.path;
}

constexpr std::size_t longest_guess = 128; ///< Longest path that is guessed at.

/// Returns the served path that is nearly the one asked for; empty if there is none.
std::string meant(std::string_view path) {
  if (path.size() > longest_guess)
    return {};
  while (path.ends_with('/'))
    path.remove_suffix(1);
  for (; !path.empty(); path.remove_prefix(std::min(path.find('/', 1), path.size())))
    for (const std::string& near : {std::string(path), "/v1" + std::string(path)})
      for (const Route& route : routes)
        if (leads(route, near))
          return near;
  return {};
}

ApiError no_such_path(std::string_view path) {
  for (const auto& [name, what] : not_served)
    if (path.starts_with(name))
      return {.status = 404,
              .message = fmt::format("{} is not served: this server completes texts and chats, and "
                                     "has no {}; use another one for that",
                                     path, what),
              .code = "unsupported_endpoint"};
  if (const std::string near = meant(path); !near.empty())
    return {.status = 404,
            .message = fmt::format("there is no {}: ask for {}{}", path, near,
                                   near.starts_with("/v1") ? " (a base URL ends in /v1)" : ""),
            .code = "not_found"};
  return {.status = 404,
          .message = fmt::format("there is no {}: docs/serving.md lists what there is",
                                 path.empty() ? "such path" : path),
          .code = "not_found"};
}

} // namespace

ApiResult<const Route*> find_route(std::string_view method, std::string_view path,
                                   std::string& allowed) {
  for (const Route& route : routes) {
    if (!leads(route, path))
      continue;
    if (method == route.method || (method == "HEAD" && route.method == "GET"))
      return &route;
    allowed = route.method;
  }
  if (allowed.empty())
    return refuse(no_such_path(path));
  return refuse({.status = 405,
                 .message = fmt::format("{} does not take {}: use {}", path, method, allowed),
                 .code = "method_not_allowed"});
}

std::string decode_target(std::string_view target) {
  if (const auto scheme = target.find("://"); scheme < 6) { // Also false for npos.
    const auto path = target.find('/', scheme + 3);         // A proxy sends the host in the target.
    target = path == std::string_view::npos ? "/" : target.substr(path);
  }
  target = target.substr(0, target.find('?'));
  std::string path;
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (target[i] != '%') {
      path += target[i];
      continue;
    }
    unsigned code = 0;
    const char* digits = target.data() + i + 1;
    if (i + 2 >= target.size() || std::from_chars(digits, digits + 2, code, 16).ptr != digits + 2 ||
        code < ' ')
      return {};
    path += char(code);
    i += 2;
  }
  return path.starts_with('/') ? path : std::string();
}

} // namespace paceline::apps::serve
