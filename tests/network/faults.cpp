// An engine and its draft's node, or the node that has a stage of its target, with faults in
// between, drawn by a seed: every output has to be that of plain decoding (docs/machines.md).
//
//   network_faults PROGRAM [--has draft|stage] [--faults N] [--seed N]
//     [--there COMMAND] [--host HOST] [--wire COMMAND] [--tls DIR]
//
// --there: starts the node elsewhere ("ip netns exec NAME"); --host: where it then listens; --wire:
// with " down" or " up" behind it, unplugs the wire. Without them the node is on loopback and the
// wire is the relay that is in between in any case.
#include "tests/network/nodes.hpp"
#include "tests/network/relay.hpp"
#include "tests/support/requests.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <unistd.h>

using namespace paceline;
using namespace paceline::testing;
using Clock = std::chrono::steady_clock;

namespace {

enum class Fault { kill, freeze, unplug, other_model, cut, unplug_wire };
constexpr std::array fault_names{"killed",      "frozen",  "wire held",
                                 "other model", "cut off", "unplugged"};

struct Options {
  std::string program;
  bool stage = false; ///< The node has a stage of the target, and no draft.
  int faults = 10;
  std::uint64_t seed = 1;
  std::string there;
  std::string host = "127.0.0.1";
  std::string wire; ///< Empty: only the relay can be unplugged.
  std::string tls;
};

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

/// The demo's draft or target with another rope: the same name and shape, and another model.
class OtherModel {
public:
  explicit OtherModel(const std::string& model) {
    namespace fs = std::filesystem;
    folder_ =
        (fs::temp_directory_path() / ("paceline_faults_" + std::to_string(::getpid()))).string();
    fs::copy(model, folder_);
    std::ifstream in(folder_ + "/config.json");
    std::string config{std::istreambuf_iterator<char>(in), {}};
    in.close();
    const auto value = config.find(':', config.find("rope_theta")) + 1;
    config.replace(value, config.find_first_of(",}", value) - value, " 12345.0");
    std::filesystem::remove(folder_ + "/config.json");
    std::ofstream(folder_ + "/config.json") << config;
  }
  ~OtherModel() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  const std::string& folder() const { return folder_; }

private:
  std::string folder_;
};

class Run {
public:
  explicit Run(const Options& options)
      : options_(options), random_(options.seed),
        other_(PACELINE_DEMO_MODELS + std::string(options.stage ? "/target" : "/draft")) {
    for (int i = 0; i < 6; ++i)
      requests_.push_back(repeatable(prompts[std::size_t(i) % prompts.size()], 96,
                                     i % 2 == 0 ? std::nullopt : std::optional<std::uint64_t>(i)));
    EngineOptions plain = engine_options();
    plain.speculation = SpeculationMode::off;
    Engine engine = open_or_throw(plain);
    for (const Request& request : requests_) {
      Stream stream = submit_or_throw(engine, request);
      expected_.push_back(read_outcome(stream).tokens);
    }
  }

  void run() {
    start_node({});
    relay_.emplace(Relay::Options{.to_host = options_.host, .to_port = std::uint16_t(port_)});
    EngineOptions options = engine_options();
    options.speculation = SpeculationMode::overlap;
    const std::string node = "node://127.0.0.1:" + std::to_string(relay_->port());
    if (options_.stage)
      options.devices = {"cpu:0", node};
    else
      options.draft_devices = {node};
    if (!options_.tls.empty())
      options.node_tls = {options_.tls + "/certificate.pem", options_.tls + "/key.pem",
                          options_.tls + "/authority.pem"};
    engine_.emplace(open_or_throw(options));
    await_drafts();
    const auto began = Clock::now();
    for (int i = 0; i < options_.faults; ++i)
      strike(Fault(draw(options_.wire.empty() ? 5 : 6)));
    report(std::chrono::duration<double>(Clock::now() - began).count());
  }

private:
  static constexpr std::array prompts{"class Stack:\n    def __init__(self):\n", "import os\n",
                                      "def fibonacci(n):\n"};

  static EngineOptions engine_options() {
    EngineOptions options;
    options.threads = 1;
    options.window = 3;
    options.max_num_seqs = 4;
    options.faults.heartbeat = std::chrono::milliseconds(200);
    options.faults.restart_pause_max = std::chrono::milliseconds(50);
    options.faults.restarts_forgotten = std::chrono::milliseconds(1);
    return options;
  }
  int draw(int below) { return int(random_() % unsigned(below)); }

  void start_node(const std::vector<std::string>& more) {
    node_.reset();
    std::vector<std::string> command = words(options_.there);
    command.push_back(options_.program);
    std::vector<std::string> arguments = more;
    if (!options_.tls.empty())
      arguments.insert(arguments.end(),
                       {"--tls-cert", options_.tls + "/certificate.pem", "--tls-key",
                        options_.tls + "/key.pem", "--tls-ca", options_.tls + "/authority.pem"});
    node_.emplace(command, options_.host + ":" + std::to_string(port_), arguments);
    port_ = node_->port();
  }

  /// A fault in the middle of some answers, and its mending there or behind them.
  void strike(Fault fault) {
    std::vector<std::size_t> asked(std::size_t(1 + draw(3)));
    std::vector<Stream> streams;
    for (std::size_t& which : asked) {
      which = std::size_t(draw(int(requests_.size())));
      streams.push_back(submit_or_throw(*engine_, requests_[which]));
    }
    for (int events = 1 + draw(20); events > 0 && streams.front().next(); --events) {
    }
    const auto begun = engine_->metrics().restarts;
    begin(fault);
    const bool mended_early = options_.stage || draw(2) == 0; // nothing goes on without a stage
    if (mended_early) {
      std::this_thread::sleep_for(std::chrono::milliseconds(draw(300)));
      mend(fault);
    }
    for (std::size_t i = 0; i < streams.size(); ++i)
      check(read_outcome(streams[i]), asked[i], i == 0);
    if (!mended_early)
      mend(fault);
    await_drafts();
    ++counts_[fault];
    noticed_ += engine_->metrics().restarts > begun;
  }
  void begin(Fault fault) {
    switch (fault) {
    case Fault::kill: return node_->send(SIGKILL);
    case Fault::freeze: return node_->send(SIGSTOP);
    case Fault::unplug: return relay_->unplug(true);
    case Fault::other_model:
      node_->send(SIGKILL);
      return start_node({options_.stage ? "--target" : "-m", other_.folder()});
    case Fault::cut: return relay_->cut();
    case Fault::unplug_wire: return wire(" down");
    }
  }
  void mend(Fault fault) {
    switch (fault) {
    case Fault::kill:
    case Fault::other_model: return start_node({});
    case Fault::freeze: return node_->send(SIGCONT);
    case Fault::unplug: return relay_->unplug(false);
    case Fault::cut: return;
    case Fault::unplug_wire: return wire(" up");
    }
  }
  void wire(const std::string& state) const {
    if (std::system((options_.wire + state).c_str()) != 0)
      throw std::runtime_error("cannot switch the wire");
  }

  /// partly: some of it has been read already.
  void check(const Outcome& got, std::size_t which, bool partly) {
    const std::vector<TokenId>& expected = expected_[which];
    const bool same = partly ? std::equal(got.tokens.rbegin(), got.tokens.rend(), expected.rbegin())
                             : got.tokens == expected;
    if (!got.error.empty() || !same || got.tokens.size() > expected.size())
      throw std::runtime_error("other tokens than plain decoding's, or an error: " + got.error);
    ++outputs_;
    accepted_ += got.accepted;
  }
  void await_drafts() {
    const auto began = Clock::now();
    for (bool drafts = false; !drafts;) {
      const std::size_t which = std::size_t(draw(int(requests_.size())));
      Stream stream = submit_or_throw(*engine_, requests_[which]);
      const Outcome got = read_outcome(stream);
      check(got, which, false);
      drafts = got.accepted > 0;
      if (Clock::now() - began > std::chrono::seconds(60))
        throw std::runtime_error("no drafts within a minute after a fault was mended");
    }
    recoveries_.push_back(std::chrono::duration<double>(Clock::now() - began).count());
  }

  void report(double seconds) {
    std::printf("network: a %s on a node: %d faults by seed %llu in %.0f s (",
                options_.stage ? "stage" : "draft", options_.faults,
                static_cast<unsigned long long>(options_.seed), seconds);
    const char* comma = "";
    for (const auto& [fault, count] : counts_)
      std::printf("%s%s %d", std::exchange(comma, ", "), fault_names[std::size_t(fault)], count);
    std::sort(recoveries_.begin(), recoveries_.end());
    std::printf("), of which the engine noticed %d: %d outputs, each that of plain decoding; "
                "drafts again within %.1f s (median), %.1f s at most\n",
                noticed_, outputs_, recoveries_[recoveries_.size() / 2], recoveries_.back());
  }

  Options options_;
  std::mt19937_64 random_;
  OtherModel other_;
  std::vector<Request> requests_;
  std::vector<std::vector<TokenId>> expected_;
  std::optional<NodeProcess> node_;
  int port_ = 0;
  std::optional<Relay> relay_;
  std::optional<Engine> engine_;
  std::map<Fault, int> counts_;
  int outputs_ = 0;
  int noticed_ = 0;
  std::uint64_t accepted_ = 0;
  std::vector<double> recoveries_;
};

std::optional<Options> read_options(int argc, char** argv) {
  if (argc < 2 || argc % 2 != 0)
    return std::nullopt;
  Options options;
  options.program = argv[1];
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--has")
      options.stage = value == "stage";
    else if (name == "--faults")
      options.faults = std::atoi(value.c_str());
    else if (name == "--seed")
      options.seed = std::strtoull(value.c_str(), nullptr, 10);
    else if (name == "--there")
      options.there = value;
    else if (name == "--host")
      options.host = value;
    else if (name == "--wire")
      options.wire = value;
    else if (name == "--tls")
      options.tls = value;
    else
      return std::nullopt;
  }
  return options;
}

} // namespace

int main(int argc, char** argv) {
  const auto options = read_options(argc, argv);
  if (!options)
    return std::fputs("usage: network_faults PROGRAM [--has draft|stage] [--faults N] [--seed N] "
                      "[--there COMMAND] [--host HOST] [--wire COMMAND] [--tls DIR]\n",
                      stderr),
           2;
  try {
    Run(*options).run();
  } catch (const std::exception& wrong) {
    std::printf("network: FAILED: %s\n", wrong.what());
    return 1;
  }
}
