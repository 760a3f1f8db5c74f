// What a stranger to a node, in a process of its own, takes besides.
#pragma once

#include "tests/apps/running_node.hpp"
#include "tests/support/stranger.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

namespace paceline::testing {

inline std::vector<char> header_bytes(const nodes::FrameHeader& header) {
  const auto bytes = nodes::write_header(header);
  return {bytes.begin(), bytes.end()};
}

struct Certificates {
  TemporaryFolder folder;
  std::string path = folder.file("tls");
  /// machines: as the program takes them; none: one certificate for all.
  explicit Certificates(const std::vector<std::string>& machines = {}) {
    std::vector<std::string> arguments{"node", "--make-certificates", path};
    arguments.insert(arguments.end(), machines.begin(), machines.end());
    const auto made = run_paceline(arguments);
    REQUIRE_MESSAGE(made.status == 0, made.errors);
  }
  /// machine: its folder; empty: of all.
  NodeTls files(const std::string& machine = "") const {
    const std::string at = path + "/" + machine;
    return {at + "/certificate.pem", at + "/key.pem", at + "/authority.pem"};
  }
  std::vector<std::string> arguments(const std::string& machine = "") const {
    const NodeTls tls = files(machine);
    return {"--tls-cert", tls.certificate, "--tls-key", tls.key, "--tls-ca", tls.authority};
  }
};

} // namespace paceline::testing
