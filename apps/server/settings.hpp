// The settings of a server (`paceline serve --help`).
#pragma once

#include "apps/console/limits.hpp"
#include "apps/server/fleet.hpp"
#include "paceline/request.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace paceline::apps::serve {

struct Settings {
  std::string host = "127.0.0.1";         ///< Address or name; all its addresses are bound.
  std::uint16_t port = 8000;              ///< 0: any that is free.
  std::optional<std::uint16_t> grpc_port; ///< 0: any that is free; none: gRPC is not served.
  std::vector<std::string> model_names;   ///< Names under which clients ask for the model; none if
                                          ///< several models are placed.

  std::vector<std::string> allowed_origins; ///< Origins of web pages that may ask; "*": any.
  std::string api_key_file;        ///< One key a line; empty: the environment's keys, if any.
  std::string admin_key_file;      ///< File with the keys of those who may load and unload models.
  bool web = true;                 ///< Whether the page and the timeline are served.
  bool share_drafts = false;       ///< Whether drafts may come from outputs for any key's holder.
  bool share_prefix_cache = false; ///< Whether all keys' holders share cached prefixes.
  std::string tls_certificate;     ///< PEM file; both this and the key, or none.
  std::string tls_key;

  std::size_t max_body_bytes = limits::body_bytes;
  std::size_t max_request_memory = limits::request_memory_bytes; ///< Bytes over all requests.
  int max_connections = limits::connections;
  int max_open = 272;        ///< Answers that wait or run; the engine's own bound.
  int max_prompt_tokens = 0; ///< 0: as many as the context takes.
  std::chrono::milliseconds receive_timeout = limits::receive_time;
  std::chrono::milliseconds idle_timeout = limits::idle_time;
  std::chrono::milliseconds write_timeout = limits::write_time;
  std::chrono::milliseconds request_timeout = limits::request_time; ///< 0: no limit.
  std::chrono::milliseconds drain_timeout = limits::drain_time;
  /// How long an answer may be silent before something is sent; 0: any time.
  std::chrono::milliseconds awake_interval = limits::awake_interval;

  std::string log_level = "info"; ///< "debug", "info", "warning", "error", "off"
  bool log_json = false;
  bool log_prompts = false; ///< Whether bodies of requests go into the log.

  FleetOptions fleet;

  Request defaults; ///< Values that a request does not give, such as the rule of verification.
};

} // namespace paceline::apps::serve
