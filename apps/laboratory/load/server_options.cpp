#include "apps/laboratory/load/server_options.hpp"

#include "apps/console/options.hpp"

#include <cstdlib>

namespace paceline::apps::load {
namespace {

Result<std::string> api_key_of(const std::string& file) {
  if (file.empty()) {
    const char* key = std::getenv("OPENAI_API_KEY");
    return std::string(key ? key : "");
  }
  auto text = read_text({.text = {}, .file = file});
  if (!text)
    return text;
  return text->substr(0, text->find_first_of("\r\n \t"));
}

} // namespace

CLI::Option* add_server_options(CLI::App& app, ServerOptions& options,
                                const std::string& description) {
  auto* url = app.add_option("--base-url", options.base_url, description)->type_name("URL");
  app.add_option("--api-key-file", options.api_key_file,
                 "Its first line is the key; default: $OPENAI_API_KEY, if set")
      ->type_name("FILE");
  app.add_option("--tls-ca", options.tls_authorities,
                 "Trust these authorities (PEM); default: those that the system trusts")
      ->type_name("FILE");
  return url;
}

Result<HttpOptions> reach(const ServerOptions& options, const std::string& url) {
  const auto parsed = parse_base_url(url);
  if (!parsed)
    return tl::unexpected(parsed.error());
  auto key = api_key_of(options.api_key_file);
  if (!key)
    return tl::unexpected(key.error());
  return HttpOptions{*parsed, std::move(*key), options.tls_authorities};
}

} // namespace paceline::apps::load
