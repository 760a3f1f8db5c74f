#include "tests/apps/support.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace paceline::testing {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

} // namespace

std::vector<std::string> paceline_command(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), PACELINE_PROGRAM);
  return arguments;
}

ProcessResult run_paceline(std::vector<std::string> arguments, const std::string& input) {
  return run_process(paceline_command(std::move(arguments)), input);
}

boost::json::object paceline_json(std::vector<std::string> arguments, const std::string& input) {
  arguments.push_back("--json");
  const ProcessResult result = run_paceline(std::move(arguments), input);
  INFO(result.errors);
  REQUIRE(result.status == 0);
  CHECK(result.errors.empty());
  CHECK(std::count(result.output.begin(), result.output.end(), '\n') == 1);
  CHECK(result.output.back() == '\n');
  const auto value = boost::json::parse(result.output);
  REQUIRE(value.is_object());
  return value.get_object();
}

void check_complaint(const ProcessResult& result, int status,
                     const std::vector<std::string>& words) {
  INFO(result.errors);
  CHECK(result.signal == 0);
  CHECK(result.status == status);
  CHECK(result.output.empty());
  CHECK(result.errors.starts_with("paceline: "));
  CHECK(std::count(result.errors.begin(), result.errors.end(), '\n') == 1);
  CHECK(result.errors.ends_with('\n'));
  CHECK(result.errors.find(": ", 10) != std::string::npos); // what is wrong: how to mend it
  for (const std::string& word : words) {
    CAPTURE(word);
    CHECK(result.errors.find(word) != std::string::npos);
  }
}

void check_keys(const boost::json::object& object, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    CAPTURE(key);
    const auto dot = key.find('.');
    const auto* value = object.if_contains(key.substr(0, dot));
    REQUIRE(value != nullptr);
    if (dot != std::string::npos) {
      REQUIRE(value->is_object());
      check_keys(value->get_object(), {key.substr(dot + 1)});
    }
  }
}

ModelCopy::ModelCopy(const std::string& role) {
  fs::copy(fs::path(PACELINE_DEMO_MODELS) / role, folder_.path());
}

void ModelCopy::overwrite(const std::string& name, const std::string& text) const {
  write(file(name), text);
}

void ModelCopy::set_config(const std::string& key, const std::string& value) const {
  auto config = boost::json::parse(read(file("config.json"))).as_object();
  config[key] = boost::json::parse(value);
  overwrite("config.json", boost::json::serialize(config));
}

} // namespace paceline::testing
