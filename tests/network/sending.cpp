// ./dev soak sending FOLDER: a model goes to a node over a wire that is cut in the middle: what was
// there is not sent again, and neither end keeps more than parts of it in memory.
//
//   soak_sending PROGRAM FOLDER
#include "nodes/sending.hpp"
#include "models/checkpoint/files.hpp"
#include "models/identity.hpp"
#include "nodes/survey.hpp"
#include "tests/network/nodes.hpp"
#include "tests/network/relay.hpp"
#include "tests/support/temporary_folder.hpp"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>

using namespace paceline;
using namespace paceline::testing;
using Clock = std::chrono::steady_clock;

namespace {

/// Beyond what a process had before: parts under way, buffers of sockets, and threads' stacks.
constexpr double growth_max = 32e6;

/// Bytes that a process has had in memory at a time.
double peak_of(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string word; status >> word;)
    if (double kib = 0; word == "VmHWM:" && status >> kib)
      return kib * 1024;
  throw std::runtime_error("no memory is known of a process");
}

template <class Value>
Value value_or_throw(Result<Value> result) {
  if (!result)
    throw std::runtime_error(result.error().text());
  return std::move(*result);
}

std::uint64_t bytes_of(const std::string& folder) {
  std::uint64_t bytes = 0;
  for (const std::string& path : value_or_throw(models::checkpoint_files(folder)))
    bytes += std::filesystem::file_size(path);
  return bytes;
}

/// What the wire did, and how far the model was there at the time.
struct Cut {
  Relay& wire;
  double at = 0;       ///< The last that was known before; 0: it has not been cut.
  double went_on = -1; ///< The first behind it.

  void see(double done) {
    if (at > 0 && went_on < 0)
      went_on = done;
    if (at > 0 || done < 0.5)
      return;
    at = done;
    wire.cut();
  }
};

int run(const std::string& program, const std::string& folder) {
  const std::uint64_t bytes = bytes_of(folder);
  const TemporaryFolder cache;
  NodeProcess node({program}, "127.0.0.1:0",
                   {"-m", "scripted:vocabulary=64,seed=7", "--model-cache", cache.path(),
                    "--accept-models", std::to_string(2 * bytes)});
  Relay wire({.to_port = std::uint16_t(node.port())});
  const nodes::NodeAddress address{{"127.0.0.1", wire.port()}, ""};
  actors::Runtime runtime(std::nullopt, [](auto& config) { nodes::add_network(config, {}); });
  const double here = peak_of(::getpid()), there = peak_of(node.id());
  const auto began = Clock::now();
  Cut cut{wire};
  const auto sent = nodes::send_model(runtime.system(), address, {}, folder,
                                      value_or_throw(models::checkpoint_identity(folder)),
                                      [&](double done) { cut.see(done); });
  const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
  if (!sent)
    throw std::runtime_error(sent.error().text());
  const auto kept = value_or_throw(nodes::survey_node(address, {})).kept_bytes;
  const double grown_here = peak_of(::getpid()) - here, grown_there = peak_of(node.id()) - there;
  const bool bad = grown_here > growth_max || grown_there > growth_max || kept != bytes ||
                   cut.at == 0 || cut.went_on < cut.at - 0.1;
  std::printf("%.0f MB in %.1f s, with their hashes; cut at %.1f %%, went on from %.1f %%; the "
              "node keeps %.0f MB; memory grew by at most %.1f MB here and %.1f MB there: %s\n",
              double(bytes) / 1e6, seconds, 100 * cut.at, 100 * cut.went_on, double(kept) / 1e6,
              grown_here / 1e6, grown_there / 1e6, bad ? "FAILED" : "bounded, and sent once");
  return bad;
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 3)
    return std::fputs("usage: soak_sending PROGRAM FOLDER\n", stderr), 2;
  try {
    return run(argv[1], argv[2]);
  } catch (const std::exception& wrong) {
    std::printf("FAILED: %s\n", wrong.what());
    return 1;
  }
}
