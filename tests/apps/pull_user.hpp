// A user of `paceline pull`, and what hubs of its tests hold.
#pragma once

#include "tests/apps/hub_server.hpp"
#include "tests/apps/support.hpp"
#include "tests/support/files.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <doctest/doctest.h>
#include <filesystem>

namespace paceline::testing {

inline constexpr const char* token = "hf_secret";
inline constexpr std::size_t chunk = 100'000;

/// Bytes that repeat nowhere within a megabyte.
inline std::string some_bytes(std::size_t count) {
  std::string text;
  for (std::uint32_t i = 0; text.size() < count; ++i)
    text += std::to_string(i * 2654435761u) + "\n";
  return text.substr(0, count);
}

/// A user of the program, with a hub and a home without anything else.
struct User {
  const HubServer& hub;
  TemporaryFolder home{};

  std::vector<std::string> environment(const std::string& with_token = token) const {
    return {"HOME=" + home.path(),
            "PACELINE_MODELS=" + home.file("models"),
            "HF_ENDPOINT=" + hub.url(),
            "HF_TOKEN=" + with_token,
            "XDG_CACHE_HOME=",
            "HF_HOME=",
            "HF_HUB_CACHE=",
            "OLLAMA_MODELS=",
            "no_proxy=*"};
  }
  ProcessResult run(const std::vector<std::string>& arguments,
                    const std::string& with_token = token) const {
    return run_process(paceline_command(arguments), "", environment(with_token));
  }
  ProcessResult pull(const std::string& name = "org/name:Q8_0",
                     const std::string& with_token = token) const {
    return run({"pull", name}, with_token);
  }
  boost::json::object ask(std::vector<std::string> arguments) const {
    arguments.push_back("--json");
    const auto result = run(arguments);
    INFO(result.errors);
    REQUIRE(result.status == 0);
    return boost::json::parse(result.output).as_object();
  }
  boost::json::array list() const { return ask({"list"}).at("models").as_array(); }
  std::filesystem::path model(const std::string& name = "name:Q8_0") const {
    return home.file("models/org/" + name);
  }
  std::filesystem::path part(const std::string& file) const {
    return home.file("models/org/.name:Q8_0.part/" + file);
  }
  /// Nothing is there under a name, whatever else is.
  bool has_nothing() const {
    const auto models = list();
    return std::ranges::all_of(
        models, [](const boost::json::value& m) { return m.at("kind") == "unfinished"; });
  }
};

/// A hub with one GGUF file, which nothing here opens.
struct OneFile {
  std::string content = some_bytes(3 * chunk);
  HubServer hub;
  User user{hub};

  explicit OneFile(HubServer::Change change = {}) : hub(std::move(change)) {
    hub.add("name-Q8_0.gguf", content);
  }
  std::vector<std::string> ranges() const {
    std::vector<std::string> out;
    for (const HubRequest& request : hub.requests("name-Q8_0.gguf"))
      out.push_back(request.range);
    return out;
  }
  bool is_there() const { return read_file(user.model() / "name-Q8_0.gguf") == content; }
};

inline bool is_file(const HubRequest& request) {
  return request.target.find("/resolve/") != std::string::npos;
}

} // namespace paceline::testing
