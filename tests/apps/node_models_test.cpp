// Models that a node lacks and engines send, what a node says of itself, and for which hosts its
// certificate is: real processes, real sockets.
#include "models/checkpoint/digest.hpp"
#include "models/identity.hpp"
#include "nodes/limits.hpp"
#include "tests/apps/stranger.hpp"
#include "tests/support/files.hpp"
#include "tests/support/node_checks.hpp"

#include <doctest/doctest.h>
#include <iterator>
#include <thread>

#include <filesystem>
#include <memory>

using namespace paceline;
using namespace paceline::nodes;
using namespace paceline::testing;

namespace {

/// A draft that no node has by itself.
struct OtherDraft : ModelCopy {
  OtherDraft() : ModelCopy("draft") { set_config("rope_theta", "10001.0"); }
  std::string identity() const { return *models::checkpoint_identity(path()); }
};

struct Cache {
  TemporaryFolder folder;
  std::vector<std::string> arguments(const std::string& most = "100M") const {
    return {"--accept-models", most, "--model-cache", folder.path()};
  }
  int models() const {
    namespace fs = std::filesystem;
    return int(std::distance(fs::directory_iterator(folder.file("models")), {}));
  }
};

EngineOptions options_for(const RunningNode& node, const std::string& draft, int& sent) {
  EngineOptions options;
  options.threads = 1;
  options.drafters = {draft};
  options.draft_devices = {node.address()};
  options.progress = [&sent](const std::string& what, double done) {
    if (contains(what, "sending"))
      ++sent;
    CHECK(done >= 0);
    CHECK(done <= 1);
  };
  return options;
}

void check_drafts(const EngineOptions& options) {
  const Request request = repeatable("def", 48);
  Engine engine = open_engine(options);
  ask_until(engine, request, without_draft(request), drafted);
}

/// A model's files, as a stranger sends them.
struct Luggage {
  messages::SendModel announced;
  std::vector<std::string> contents;
  explicit Luggage(const OtherDraft& draft) {
    announced.identity = draft.identity();
    const auto paths = models::checkpoint_files(draft.path());
    for (const std::string& path : paths.value()) {
      contents.push_back(read_file(path));
      models::Digest digest;
      digest.add(contents.back());
      announced.files.push_back(
          {std::filesystem::path(path).filename().string(), contents.back().size(), digest.hex()});
    }
  }
  std::vector<char> part(std::uint32_t file, std::uint64_t at, std::size_t size) const {
    return frame(messages::ModelPart{file, at, contents[file].substr(at, size)});
  }
};

} // namespace

TEST_CASE("a node that lacks the model is sent it once, and has it when it comes back") {
  const OtherDraft draft;
  const Cache cache;
  int sent = 0;
  {
    RunningNode node(cache.arguments());
    check_drafts(options_for(node, draft.path(), sent));
    CHECK(sent > 0);
    CHECK(cache.models() == 1);
    sent = 0;
    check_drafts(options_for(node, draft.path(), sent));
    const auto survey = paceline_json({"inspect", "--devices", "--node", node.address()});
    CHECK(survey.at("models").as_array().size() == 2);
    CHECK(survey.at("kept_bytes").to_number<std::size_t>() > 1'000'000);
  }
  RunningNode node(cache.arguments());
  check_drafts(options_for(node, draft.path(), sent));
  CHECK(sent == 0);
}

TEST_CASE("several engines want the same model: one sends it, and all draft") {
  const OtherDraft draft;
  const Cache cache;
  RunningNode node(cache.arguments());
  int sent[3] = {};
  std::vector<std::thread> engines;
  for (int& each : sent)
    engines.emplace_back([&] { CHECK(Engine::open(options_for(node, draft.path(), each))); });
  for (auto& engine : engines)
    engine.join();
  CHECK(cache.models() == 1);
}

TEST_CASE("a node that takes no models, or has no room for one, refuses by name") {
  const OtherDraft draft;
  int sent = 0;
  const auto error_of = [&](const RunningNode& node) {
    const auto engine = Engine::open(options_for(node, draft.path(), sent));
    REQUIRE_FALSE(engine);
    return engine.error().text();
  };
  CHECK(contains(error_of(RunningNode()), "with --accept-models to be sent it"));
  const Cache cache;
  CHECK(contains(error_of(RunningNode(cache.arguments("1M"))), "keeps 1.0 MB of models at most"));
  CHECK(sent == 0);
  CHECK(cache.models() == 0);
  check_complaint(run_paceline({"node", "--listen", "127.0.0.1:0", "--accept-models", "1G",
                                "--model-cache", "/proc/nowhere"}),
                  2, {"/proc/nowhere", "--model-cache"});
}

namespace {

struct Accepted {
  std::unique_ptr<Stranger> stranger;
  std::vector<std::uint64_t> present; ///< Bytes of each file that the node has.
};

/// A node that has not heard yet that another connection is gone refuses; it is asked again.
Accepted announce(const RunningNode& node, const Luggage& luggage) {
  while (true) {
    auto stranger = std::make_unique<Stranger>(node.port());
    stranger->send(frame(messages::Survey{}));
    stranger->send(frame(luggage.announced));
    if (auto wanted = stranger->read<messages::ModelWanted>())
      return {std::move(stranger), std::move(wanted->present)};
  }
}

} // namespace

TEST_CASE("what arrived before a cut is not sent again") {
  const OtherDraft draft;
  const Luggage luggage(draft);
  const Cache cache;
  auto node = std::make_unique<RunningNode>(cache.arguments());
  constexpr std::size_t piece = 50'000;
  std::uint64_t before = 0;
  for (const bool killed : {false, true, false}) {
    {
      auto [stranger, present] = announce(*node, luggage);
      REQUIRE(present.size() == 3);
      CHECK(present[0] + present[1] + present[2] == before);
      for (std::uint32_t file = 0, parts = 4; file < 3 && parts > 0; ++file)
        for (; present[file] < luggage.contents[file].size() && parts > 0; --parts) {
          stranger->send(luggage.part(file, present[file], piece));
          REQUIRE(stranger->read<messages::ModelTaken>());
          present[file] += std::min(piece, luggage.contents[file].size() - present[file]);
        }
      before = present[0] + present[1] + present[2];
    }
    if (killed) {
      node->kill();
      node = std::make_unique<RunningNode>(cache.arguments());
    }
  }
  CHECK(cache.models() == 0);
  int sent = 0;
  check_drafts(options_for(*node, draft.path(), sent));
  CHECK(cache.models() == 1);
}

TEST_CASE("who sends more than is wanted, or something else, ends its own connection alone") {
  const OtherDraft draft;
  const Luggage luggage(draft);
  const Cache cache;
  RunningNode node(cache.arguments());
  const auto ends_after = [&](const std::vector<std::vector<char>>& frames) {
    Stranger stranger(node.port());
    stranger.send(frame(messages::Survey{}));
    for (const auto& bytes : frames)
      stranger.send(bytes);
    stranger.read_to_end();
  };
  auto lies = luggage.announced;
  lies.files.front().name = "../../config.json";
  ends_after({frame(lies)});
  ends_after({luggage.part(0, 0, 10)});
  ends_after({frame(luggage.announced), frame(luggage.announced)});
  ends_after({frame(luggage.announced), luggage.part(0, 1, 10)});
  ends_after({frame(luggage.announced), luggage.part(2, 0, 10)});
  ends_after({frame(luggage.announced), luggage.part(0, 0, 1 << 20)});
  // More parts at once than it may: none of them waits in memory.
  std::vector<std::vector<char>> flood{frame(luggage.announced)};
  for (int i = 0; i < 100; ++i)
    flood.push_back(luggage.part(0, std::uint64_t(i), 1));
  ends_after(flood);
  // Another model's files under this name.
  auto other = luggage;
  other.announced.identity = std::string(64, 'a');
  Stranger stranger(node.port());
  stranger.send(frame(messages::Survey{}));
  stranger.send(frame(other.announced));
  REQUIRE(stranger.read<messages::ModelWanted>());
  for (std::uint32_t file = 0; file < 3; ++file)
    for (std::size_t at = 0; at < other.contents[file].size(); at += limits::model_part_bytes) {
      stranger.send(other.part(file, at, limits::model_part_bytes));
      const bool last = file == 2 && other.contents[file].size() - at <= limits::model_part_bytes;
      if (!last)
        REQUIRE(stranger.read<messages::ModelTaken>());
    }
  const auto refused = stranger.read<messages::Refused>();
  REQUIRE(refused);
  CHECK(contains(refused->why.message, "another model's"));
  CHECK(cache.models() == 0);
  int sent = 0;
  check_drafts(options_for(node, draft.path(), sent));
}

TEST_CASE("a node says what it has") {
  RunningNode node;
  const auto survey = paceline_json({"inspect", "--devices", "--node", "127.0.0.1:" + node.port()});
  check_keys(survey, {"node", "devices", "models", "engines", "engines_max", "accepts_bytes"});
  CHECK(survey.at("node").as_string() == node.address());
  CHECK(survey.at("devices").at(0).at("name").as_string() == node.address() + "/cpu");
  CHECK(survey.at("devices").at(0).at("memory_bytes").to_number<std::size_t>() > 0);
  CHECK(survey.at("models").at(0).at("name").as_string() == "demo");
  CHECK(survey.at("accepts_bytes").to_number<std::size_t>() == 0);
  const auto text = run_paceline({"inspect", "--devices", "--node", node.address()});
  CHECK(text.status == 0);
  CHECK(contains(text.output, "draft demo"));
  node.kill();
  check_complaint(run_paceline({"inspect", "--devices", "--node", "127.0.0.1:" + node.port()}), 1,
                  {"start paceline node there"});
  check_complaint(run_paceline({"inspect", "--devices", "--node", "nowhere"}), 2,
                  {"--node", "HOST:PORT"});
}

TEST_CASE("a certificate that names hosts is believed for these alone") {
  const Certificates certificates({"here", "there,127.0.0.1", "*.example.org,::1"});
  const NodeTls tls = certificates.files("here");
  const auto ask = [&](const RunningNode& node, const std::string& host) {
    return run_paceline({"inspect", "--devices", "--node", host + ":" + node.port(), "--node-cert",
                         tls.certificate, "--node-key", tls.key, "--node-ca", tls.authority});
  };
  RunningNode right(certificates.arguments("there"));
  CHECK(ask(right, "127.0.0.1").status == 0);
  check_complaint(ask(right, "localhost"), 1,
                  {"localhost shows a certificate that is for there, 127.0.0.1"});
  RunningNode wrong(certificates.arguments("*.example.org"));
  check_complaint(ask(wrong, "127.0.0.1"), 1, {"is for *.example.org, ::1"});

  // An engine that drafts there is as careful, and one that is refused gets no word through.
  EngineOptions options;
  options.draft_devices = {wrong.address()};
  options.node_tls = tls;
  const auto engine = Engine::open(options);
  REQUIRE_FALSE(engine);
  CHECK(contains(engine.error().text(), "127.0.0.1 shows a certificate that is for"));
  options.draft_devices = {right.address()};
  options.threads = 1;
  check_drafts(options);

  // A certificate of another authority is named, too.
  const Certificates others;
  RunningNode stranger(others.arguments());
  check_complaint(ask(stranger, "127.0.0.1"), 1, {"not the authority's"});
}

TEST_CASE("certificates are made for machines by name") {
  const TemporaryFolder folder;
  const auto make = [&](std::vector<std::string> machines) {
    machines.insert(machines.begin(), {"node", "--make-certificates", folder.file("tls")});
    return run_paceline(machines);
  };
  check_complaint(make({"there", "there"}), 2, {"there twice"});
  check_complaint(make({"../there"}), 2, {"is no host"});
  check_complaint(make({"there,DNS:elsewhere"}), 2, {"is no host"});
  CHECK_FALSE(std::filesystem::exists(folder.file("tls")));
  const auto made = make({"here", "there,10.0.0.7"});
  CHECK(made.status == 0);
  CHECK(contains(made.output, folder.file("tls") + "/there/certificate.pem"));
  check_complaint(make({"there"}), 2, {"cannot write"});
}
