// The program under test: the real binary, run as a user runs it.
#pragma once

#include "tests/support/process.hpp"
#include "tests/support/temporary_folder.hpp"

#include <boost/json/object.hpp>
#include <string>
#include <vector>

namespace paceline::testing {

/// The command line of `paceline`, for Process.
std::vector<std::string> paceline_command(std::vector<std::string> arguments);
ProcessResult run_paceline(std::vector<std::string> arguments, const std::string& input = {});
/// Runs with --json added; the test fails unless status 0 and exactly one JSON object come back.
boost::json::object paceline_json(std::vector<std::string> arguments,
                                  const std::string& input = {});

/// Fails the test unless the program wrote nothing but one line `paceline: what: how` on standard
/// error and exited with `status`. `words` are what the line must contain.
void check_complaint(const ProcessResult& result, int status,
                     const std::vector<std::string>& words = {});

/// Fails the test for each key that is missing; "a.b" is key b of the object a.
void check_keys(const boost::json::object& object, const std::vector<std::string>& keys);

/// A copy of a demo model ("target" or "draft") to damage.
class ModelCopy {
public:
  explicit ModelCopy(const std::string& role);
  std::string path() const { return folder_.path(); }
  std::string file(const std::string& name) const { return folder_.file(name); }
  void overwrite(const std::string& name, const std::string& text) const;
  /// Replaces one key of config.json; `value` is JSON.
  void set_config(const std::string& key, const std::string& value) const;

private:
  TemporaryFolder folder_;
};

} // namespace paceline::testing
