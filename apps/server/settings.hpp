// What the operator of a server chooses (`paceline serve --help`).
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
  std::string host = "127.0.0.1";         ///< An address or a name; all its addresses are bound.
  std::uint16_t port = 8000;              ///< 0: any that is free.
  std::optional<std::uint16_t> grpc_port; ///< 0: any; none: gRPC is not served.
  std::vector<std::string> model_names;   ///< Under which clients ask for the model; of several
                                          ///< placed models: none.

  std::vector<std::string> allowed_origins; ///< Of web pages that may ask; "*": any.
  std::string api_key_file;        ///< One key a line; empty: those of the environment, if any.
  std::string admin_key_file;      ///< The same of who may load and unload models.
  bool share_drafts = false;       ///< Drafts may come from what was said to any key's holder.
  bool share_prefix_cache = false; ///< And cached prefixes, from what any of them has sent.
  std::string tls_certificate;     ///< PEM files; both or none.
  std::string tls_key;

  std::size_t max_body_bytes = limits::body_bytes;
  std::size_t max_request_memory = limits::request_memory_bytes; ///< Over all requests.
  int max_connections = limits::connections;
  int max_open = 272;        ///< Answers waiting or running; the engine's own bound.
  int max_prompt_tokens = 0; ///< 0: what the context takes.
  std::chrono::milliseconds receive_timeout = limits::receive_time;
  std::chrono::milliseconds idle_timeout = limits::idle_time;
  std::chrono::milliseconds write_timeout = limits::write_time;
  std::chrono::milliseconds request_timeout = limits::request_time; ///< 0: none.
  std::chrono::milliseconds drain_timeout = limits::drain_time;
  /// Of silence in an answer, after which something goes out; 0: nothing does.
  std::chrono::milliseconds awake_interval = limits::awake_interval;

  std::string log_level = "info"; ///< "debug", "info", "warning", "error", "off"
  bool log_json = false;
  bool log_prompts = false; ///< Bodies of requests into the log.

  FleetOptions fleet;

  Request defaults; ///< What a request does not say: the rule of verification.
};

} // namespace paceline::apps::serve
