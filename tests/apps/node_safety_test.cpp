// What a stranger can make a node do.
#include "models/identity.hpp"
#include "nodes/limits.hpp"
#include "tests/apps/stranger.hpp"
#include "tests/support/engine_fixture.hpp"
#include "tests/support/requests.hpp"
#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <random>

using namespace paceline;
using namespace paceline::nodes;
using namespace paceline::testing;

namespace {

/// The most memory that a process ever had, in KiB.
long peak_memory(Process& process) {
  std::ifstream status("/proc/" + std::to_string(process.id()) + "/status");
  long size = 0;
  for (std::string word; status >> word;)
    if (word == "VmHWM:")
      status >> size;
  return size;
}

constexpr int demo_width = 384; ///< Of the demo target's hidden states.

/// What an engine would ask for that has the first three layers of the demo target.
messages::OpenStage last_layers() {
  const std::string model = std::string(PACELINE_DEMO_MODELS) + "/target";
  messages::OpenStage hello;
  hello.model = "demo";
  hello.identity = models::checkpoint_identity(model).value();
  hello.layers = {models::sample_weights(model).value(), 3, 3, NumberFormat::automatic, {}, 256};
  hello.page_tokens = 16;
  hello.pages = 64;
  return hello;
}

/// An engine is still served as ever.
void check_drafts(const RunningNode& node, const NodeTls& tls = {}) {
  EngineOptions options;
  options.threads = 1;
  options.draft_devices = {node.address()};
  options.node_tls = tls;
  auto engine = Engine::open(options);
  while (!engine) // strangers that have just gone may have all places still
    engine = Engine::open(options);
  while (ask(*engine, repeatable("def", 24)).end().speculation.accepted == 0) {
  }
}

} // namespace

TEST_CASE("4 GiB announced to a node: cut off, and nothing allocated") {
  RunningNode node;
  check_drafts(node);
  const long before = peak_memory(node.process());
  REQUIRE(before > 0);
  for (const auto kind : {FrameKind::OpenDraft, FrameKind::refusal, FrameKind::DraftWork}) {
    Stranger stranger(node.port());
    stranger.send(header_bytes({node_protocol, kind, 0xffffffff}));
    CHECK(stranger.read_to_end().empty());
  }
  // One that has introduced itself may say more, and not this much either.
  Stranger stranger(node.port());
  stranger.send(frame(messages::OpenDraft{"none", "", "", 1, 1, 1}));
  stranger.send(header_bytes({node_protocol, FrameKind::DraftWork, 0xffffffff}));
  stranger.read_to_end();
  check_drafts(node);
  CHECK(peak_memory(node.process()) - before < 256 << 10);
}

TEST_CASE("another protocol is refused by name") {
  RunningNode node;
  Stranger stranger(node.port());
  stranger.send(header_bytes({node_protocol + 1, FrameKind::OpenDraft, 100}));
  const std::string answer = stranger.read_to_end();
  const auto header = read_header(answer);
  REQUIRE(header);
  CHECK(header->kind == FrameKind::refusal);
  CHECK(contains(answer, "install the same version of paceline on both machines"));
}

TEST_CASE("an engine that finds all places taken is told so") {
  RunningNode node;
  std::vector<std::unique_ptr<Stranger>> strangers;
  for (int i = 0; i < limits::sessions_max; ++i)
    strangers.push_back(std::make_unique<Stranger>(node.port()));
  EngineOptions options;
  options.draft_devices = {node.address()};
  const auto engine = Engine::open(options);
  REQUIRE_FALSE(engine);
  CHECK(contains(engine.error().text(), "drafts for 32 engines already"));
  strangers.clear();
  check_drafts(node);
}

TEST_CASE("whatever strangers say, a node goes on drafting") {
  const TemporaryFolder cache;
  RunningNode node({"--accept-models", "1M", "--model-cache", cache.path()});
  std::mt19937 random(5);
  const auto any = [&](int limit) { return int(random() % unsigned(limit)); };
  const std::string model = std::string(PACELINE_DEMO_MODELS) + "/draft";
  const messages::OpenDraft hello{"",   "demo", models::checkpoint_identity(model).value(),
                                  4096, 300,    2};
  for (int round = 0; round < 200; ++round) {
    std::vector<char> bytes = any(4) == 0 ? std::vector<char>() : frame(hello);
    if (any(4) == 0) {
      messages::SendModel files;
      files.identity =
          std::string(std::size_t(any(2) == 0 ? 64 : any(70)), any(2) == 0 ? 'a' : '/');
      for (int i = any(4); i > 0; --i)
        files.files.push_back({any(2) == 0 ? "config.json" : "../config.json",
                               std::uint64_t(any(1 << 30)), std::string(64, 'b')});
      const auto more = frame(files);
      bytes.insert(bytes.end(), more.begin(), more.end());
    }
    if (any(2) == 0) {
      std::vector<char> content(std::size_t(any(200)));
      for (char& byte : content)
        byte = char(any(256));
      const auto header =
          header_bytes({node_protocol, FrameKind(any(int(FrameKind::count) + 1)),
                        std::uint32_t(any(3) == 0 ? any(1 << 30) : int(content.size()))});
      bytes.insert(bytes.end(), header.begin(), header.end());
      bytes.insert(bytes.end(), content.begin(), content.end());
    } else {
      messages::DraftWork work;
      work.sequences.resize(std::size_t(1 + any(3)));
      for (auto& from : work.sequences) {
        from.sequence = std::uint64_t(any(4));
        from.begins.emplace().prompt_tokens = any(300) - 100;
        from.tokens.assign(std::size_t(any(8)), TokenId(any(400) - 200));
        from.start = any(30) - 10;
        from.window_end = any(30);
        from.limit = any(1 << 20);
      }
      const auto more = frame(work);
      bytes.insert(bytes.end(), more.begin(), more.end());
    }
    if (!bytes.empty() && any(3) == 0)
      bytes[std::size_t(any(int(bytes.size())))] = char(any(256));
    Stranger(node.port()).send(bytes);
  }
  check_drafts(node);
}

TEST_CASE("whatever strangers say of stages, a node goes on having them") {
  RunningNode node({"-m", "demo", "--kv-memory", "16M"});
  const messages::OpenStage hello = last_layers();
  int opened = 0;
  std::mt19937 random(7);
  const auto any = [&](int limit) { return int(random() % unsigned(limit)); };
  const auto odd = [&] { return any(3) == 0 ? any(1 << 30) : any(40) - 8; };
  for (int round = 0; round < 200; ++round) {
    messages::OpenStage wanted = hello;
    switch (any(12)) {
    case 0: wanted.layers.first = odd(); break;
    case 1: wanted.layers.count = odd(); break;
    case 2: wanted.layers.dtype = NumberFormat(odd()); break;
    case 3:
      wanted.layers.blocks = gpu::Quantization{WeightFormat(odd()), ScaleChoice(odd())};
      break;
    case 4: wanted.layers.max_positions = odd(); break;
    case 5: wanted.page_tokens = odd(); break;
    case 6: wanted.pages = std::uint64_t(odd()); break;
    case 7: wanted.layers.weights = "others"; break;
    default: break;
    }
    Stranger stranger(node.port());
    stranger.send(frame(wanted));
    opened += stranger.read<messages::StageOpened>().has_value();
    for (int pieces = any(4); pieces > 0; --pieces) {
      messages::StageRows rows;
      rows.piece = std::uint64_t(any(4));
      int count = 0;
      for (int i = any(3); i >= 0; --i) {
        messages::StageSequence& sequence = rows.sequences.emplace_back();
        sequence.rows = any(8) == 0 ? odd() : 1 + any(4);
        sequence.start = any(4) == 0 ? odd() : any(20);
        sequence.logits_from = any(4) == 0 ? odd() : 0;
        for (int page = any(4); page >= 0; --page)
          sequence.pages.push_back(std::uint32_t(any(8) == 0 ? odd() : any(64)));
        count += std::max(sequence.rows, 0);
      }
      const std::size_t width = demo_width * sizeof(float);
      rows.values.assign(any(8) == 0 ? std::size_t(any(4000)) : std::size_t(count % 300) * width,
                         char(any(256)));
      std::vector<char> bytes = frame(rows);
      if (any(4) == 0)
        bytes[std::size_t(any(int(bytes.size())))] = char(any(256));
      stranger.send(bytes);
    }
  }
  CHECK(opened > 50); // the others were refused, or what came was too much
  EngineOptions options;
  options.devices = {"cpu:0", node.address()};
  auto engine = Engine::open(options);
  while (!engine)
    engine = Engine::open(options);
  CHECK(ask(*engine, repeatable("def", 24)).tokens.size() == 24);
}

TEST_CASE("rows of a stage that cannot be end their connection, however many they are said to be") {
  constexpr int most = std::numeric_limits<int>::max();
  constexpr std::uint32_t no_page = std::numeric_limits<std::uint32_t>::max();
  messages::StageRows right;
  right.sequences = {{{0}, 0, 2, 0}, {{1}, 3, 1, 0}};
  right.values.assign(3 * demo_width * sizeof(float), '\0');
  using Change = void (*)(messages::StageRows&);
  const std::vector<std::pair<const char*, Change>> wrong{
      {"2^31 rows", [](auto& rows) { rows.sequences[0].rows = most; }},
      {"twice as many", [](auto& rows) { rows.sequences[0].rows = rows.sequences[1].rows = most; }},
      {"fewer than none", [](auto& rows) { rows.sequences[0].rows = -most; }},
      {"no rows", [](auto& rows) { rows.sequences.clear(); }},
      {"a start without end", [](auto& rows) { rows.sequences[0].start = most; }},
      {"a start before all", [](auto& rows) { rows.sequences[0].start = -1; }},
      {"logits behind the rows", [](auto& rows) { rows.sequences[0].logits_from = most; }},
      {"logits before the rows", [](auto& rows) { rows.sequences[0].logits_from = -1; }},
      {"rows on no page", [](auto& rows) { rows.sequences[0].pages.clear(); }},
      {"a page that there is not", [](auto& rows) { rows.sequences[0].pages[0] = no_page; }},
      {"a copy of such a page",
       [](auto& rows) {
         rows.copies = {{no_page, 0}};
       }},
      {"a copy to such a page",
       [](auto& rows) {
         rows.copies = {{0, no_page}};
       }},
      {"a number less", [](auto& rows) { rows.values.pop_back(); }},
      {"a row more", [](auto& rows) { rows.values.append(demo_width * sizeof(float), '\0'); }},
  };
  RunningNode node;
  const auto answer = [&](const messages::StageRows& rows) {
    Stranger stranger(node.port());
    stranger.send(frame(last_layers()));
    REQUIRE(stranger.read<messages::StageOpened>());
    stranger.send(frame(rows));
    return stranger.read<messages::StageDone>().has_value(); // false: the connection has ended
  };
  CHECK(answer(right));
  for (const auto& [name, change] : wrong) {
    CAPTURE(std::string(name));
    messages::StageRows rows = right;
    change(rows);
    CHECK_FALSE(answer(rows));
  }
  CHECK(answer(right));
}

TEST_CASE("a peer with more pieces under way than were agreed is cut off") {
  RunningNode node;
  Stranger stranger(node.port());
  stranger.send(frame(last_layers()));
  REQUIRE(stranger.read<messages::StageOpened>());
  constexpr int sent = 3 * limits::stage_pieces_in_flight;
  messages::StageRows piece; // which takes longer to run than to read
  messages::StageSequence& sequence = piece.sequences.emplace_back();
  sequence.rows = limits::stage_piece_rows_max;
  for (std::uint32_t page = 0; page < 16; ++page)
    sequence.pages.push_back(page);
  piece.values.assign(std::size_t(sequence.rows) * demo_width * sizeof(float), '\0');
  std::vector<char> bytes;
  for (; piece.piece < sent; ++piece.piece) {
    const auto more = frame(piece);
    bytes.insert(bytes.end(), more.begin(), more.end());
  }
  stranger.send(bytes);
  int answered = 0;
  while (stranger.read<messages::StageDone>())
    ++answered;
  CHECK(answered < sent);
}

TEST_CASE("frames of stages that were damaged anyhow are read or refused") {
  messages::StageRows rows;
  rows.sequences = {{{1, 2, 3}, 7, 2, 1}, {{4}, 0, 1, 0}};
  rows.values.assign(96, 'v');
  messages::OpenStage hello;
  hello.layers.blocks.emplace();
  const std::vector<std::pair<FrameKind, std::vector<char>>> whole{
      {FrameKind::StageRows, frame(rows)},
      {FrameKind::OpenStage, frame(hello)},
      {FrameKind::StageOpened, frame(messages::StageOpened{})},
      {FrameKind::StageDone, frame(messages::StageDone{3, std::string(64, 'd'), {}})}};
  std::mt19937 random(3);
  const auto ignore = [](const auto&) {};
  for (const auto& [kind, bytes] : whole) {
    const std::span<const char> content = std::span(bytes).subspan(frame_header_bytes);
    CHECK(read_frame(kind, content, ignore));
    for (std::size_t length = 0; length < content.size(); ++length)
      CHECK_FALSE(read_frame(kind, content.first(length), ignore));
    for (int round = 0; round < 20'000; ++round) {
      std::vector<char> damaged(content.begin(), content.end());
      for (int hits = 1 + int(random() % 3); hits > 0; --hits)
        damaged[random() % damaged.size()] = char(random());
      read_frame(kind, damaged, ignore);
    }
  }
}

TEST_CASE("an engine that wants forks which cannot be is cut off") {
  RunningNode node;
  messages::OpenDraft hello;
  hello.model = "demo";
  hello.identity =
      models::checkpoint_identity(std::string(PACELINE_DEMO_MODELS) + "/draft").value();
  hello.vocabulary = 256;
  hello.max_model_len = 256;
  hello.max_num_seqs = 1;
  hello.fork_rows = 8;
  messages::DraftFrom right;
  right.sequence = 1;
  right.epoch = {1, 1};
  right.begins.emplace();
  right.begins->prompt_tokens = 3;
  right.begins->max_tokens = 40;
  right.begins->rule = sampling::Rule::coupled;
  right.tokens = {10, 11, 12};
  right.chain = 1;
  right.start = 3;
  right.window_end = 5;
  right.limit = 8;
  right.forking = {4, 2, 4, 0, {}};
  const auto answer = [&](const messages::DraftFrom& from) {
    Stranger stranger(node.port());
    stranger.send(frame(hello));
    CHECK(stranger.read<messages::DraftOpened>());
    stranger.send(frame(messages::DraftWork{{}, {from}}));
    return bool(stranger.read<messages::Drafted>());
  };
  CHECK(answer(right));
  messages::DraftFrom wrong = right;
  wrong.fork = 1u << 24 | 3; // nobody has told of it
  CHECK_FALSE(answer(wrong));
  for (const auto field : {&messages::DraftForking::rows, &messages::DraftForking::most,
                           &messages::DraftForking::window, &messages::DraftForking::beyond}) {
    wrong = right;
    (*wrong.forking).*field = 255;
    CHECK_FALSE(answer(wrong));
  }
  check_drafts(node);
}

TEST_CASE("frames of forks that were damaged anyhow are read or refused") {
  messages::Drafted news;
  news.chains.resize(1);
  news.chains[0].tokens = {1, 2, 3};
  news.chains[0].opened = {{1u << 24 | 3, 2, 4, 7}};
  news.chains[0].forks = {{1u << 24 | 3, {4, 5}, {{{4, 0.5f}}, {{5, 1.0f}}}}};
  news.chains[0].guesses = {{{1, 2}, 3}, {{}, 0}, {{9}, 8}};
  const std::vector<char> bytes = frame(news);
  const std::span<const char> content = std::span(bytes).subspan(frame_header_bytes);
  const auto ignore = [](const auto&) {};
  CHECK(read_frame(FrameKind::Drafted, content, ignore));
  for (std::size_t length = 0; length < content.size(); ++length)
    CHECK_FALSE(read_frame(FrameKind::Drafted, content.first(length), ignore));
}

TEST_CASE("a frame that is no value is refused") {
  messages::DraftWork work;
  work.sequences.resize(2);
  work.sequences[0].tokens = {1, 2, 3};
  const std::vector<char> bytes = frame(work);
  const std::span<const char> content = std::span(bytes).subspan(frame_header_bytes);
  int taken = 0;
  const auto take = [&](const auto&) { ++taken; };
  CHECK(read_frame(FrameKind::DraftWork, content, take));
  CHECK(taken == 1);
  for (std::size_t length = 0; length < content.size(); ++length)
    CHECK_FALSE(read_frame(FrameKind::DraftWork, content.first(length), take));
  std::vector<char> longer(content.begin(), content.end());
  longer.push_back(0);
  CHECK_FALSE(read_frame(FrameKind::DraftWork, longer, take));
  CHECK_FALSE(read_frame(FrameKind::count, content, take));
  CHECK(taken == 1);
}

TEST_CASE("beyond this machine's loopback a node wants certificates") {
  for (const char* host : {"0.0.0.0:0", "[::]:0"})
    check_complaint(run_paceline({"node", "--listen", host}), 2,
                    {"without certificates", "--make-certificates"});
  check_complaint(run_paceline({"node"}), 2, {"--listen"});
  check_complaint(run_paceline({"node", "--listen", "127.0.0.1:0", "--tls-cert", "a"}), 2,
                  {"all three"});
}

TEST_CASE("with certificates both ends show one, and nobody else is heard") {
  const Certificates certificates;
  const Certificates others;
  RunningNode node(certificates.arguments());
  check_drafts(node, certificates.files());
  EngineOptions options;
  options.draft_devices = {node.address()};
  for (const NodeTls& tls : {NodeTls{}, others.files()}) {
    options.node_tls = tls;
    const auto engine = Engine::open(options);
    REQUIRE_FALSE(engine);
    CHECK(contains(engine.error().text(), "certificates"));
  }
  const long before = peak_memory(node.process());
  Stranger stranger(node.port());
  stranger.send(header_bytes({node_protocol, FrameKind::OpenDraft, 0xffffffff}));
  stranger.read_to_end();
  CHECK(peak_memory(node.process()) - before < 64 << 10);
  check_drafts(node, certificates.files());
}

TEST_CASE(
    "peers that take all places and say nothing lose them, in the midst of a handshake, too") {
  const Certificates certificates;
  RunningNode open_node;
  RunningNode closed_node(certificates.arguments());
  std::vector<std::unique_ptr<Stranger>> silent;
  for (int i = 0; i < limits::sessions_max; ++i)
    for (const RunningNode* node : {&open_node, &closed_node})
      silent.push_back(std::make_unique<Stranger>(node->port()));
  constexpr char hello_record[] = {0x16, 3, 1, 2,
                                   0}; // of a TLS handshake, whose content never comes
  for (std::size_t i = 1; i < silent.size(); i += 4)
    silent[i]->send({std::begin(hello_record), std::end(hello_record)});
  for (const auto& each : silent)
    each->read_to_end(); // which the node has to bring about
  check_drafts(open_node);
  check_drafts(closed_node, certificates.files());
}

TEST_CASE("who connects and says nothing holds up nobody, with certificates or without") {
  const Certificates certificates;
  RunningNode open_node;
  RunningNode closed_node(certificates.arguments());
  const Stranger silent(open_node.port());
  const Stranger silent_too(closed_node.port());
  check_drafts(open_node);
  check_drafts(closed_node, certificates.files());
}
