// The options that say which server is asked, and how it is reached.
#pragma once

#include "apps/laboratory/load/http_client.hpp"

#include <CLI/CLI.hpp>

namespace paceline::apps::load {

struct ServerOptions {
  std::string base_url;
  std::string api_key_file; ///< Empty: the key is $OPENAI_API_KEY, if set.
  std::string tls_authorities;
};

/// Adds --base-url, --api-key-file and --tls-ca, bound to `options`, which must outlive the
/// parsing. description: of --base-url. Returns --base-url.
CLI::Option* add_server_options(CLI::App& app, ServerOptions& options,
                                const std::string& description);

/// Returns how a server is reached. url: the server's, with the same key and trust. Errors: it is
/// no URL, or the key's file cannot be read.
Result<HttpOptions> reach(const ServerOptions& options, const std::string& url);

} // namespace paceline::apps::load
