// Whatever an engine says to a node, in whatever order, ends its own connection at most: the node
// goes on serving others, and lets go of what the engine had.
//
// The input says what is said: mostly what an engine could say next, and now and then anything.
// The node is the real one, with sockets on loopback, the demo draft to draft with and as a target.
#include "models/checkpoint/files.hpp"
#include "models/identity.hpp"
#include "nodes/limits.hpp"
#include "nodes/node.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/support/stranger.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using namespace paceline;
using namespace paceline::messages;
using paceline::nodes::FrameKind;
using paceline::testing::frame;
using paceline::testing::require;
using paceline::testing::Stranger;

constexpr int vocabulary = 4096;
constexpr int hidden = 128;
constexpr int layers = 2;
constexpr int page_tokens = 16;
constexpr int words_max = 64; ///< Messages of a conversation.
const std::string model = std::string(PACELINE_DEMO_MODELS) + "/draft";

/// What the input says, byte by byte; zeros behind its end.
class Choices {
public:
  explicit Choices(std::string_view input) : input_(input) {}
  bool over() const { return input_.empty(); }
  int below(int count) { return byte() % count; }
  bool rarely() { return byte() >= 248; }
  /// Mostly `usual`, now and then any number.
  template <class Number>
  Number number(Number usual) {
    const unsigned how = byte();
    if (how < 232)
      return usual;
    if (how < 240)
      return Number(std::uint64_t(usual) + std::uint64_t(below(5)) - 2);
    if (how < 248) {
      const Number edges[] = {Number(-1), Number(0), std::numeric_limits<Number>::max(),
                              std::numeric_limits<Number>::lowest()};
      return edges[below(4)];
    }
    std::uint64_t any = 0;
    for (int i = 0; i < 8; ++i)
      any = any << 8 | byte();
    return Number(any);
  }
  float real(float usual) {
    const float edges[] = {-1,
                           0,
                           1e-30f,
                           1e30f,
                           std::numeric_limits<float>::infinity(),
                           -std::numeric_limits<float>::infinity(),
                           std::numeric_limits<float>::denorm_min()};
    return rarely() ? edges[below(7)] : usual;
  }
  std::string text(std::string usual) {
    if (rarely())
      usual.resize(std::size_t(byte()), 'f');
    return usual;
  }

private:
  unsigned byte() {
    if (input_.empty())
      return 0;
    const auto next = static_cast<unsigned char>(input_.front());
    input_.remove_prefix(1);
    return next;
  }
  std::string_view input_;
};

/// The node, for all inputs.
struct Ground {
  testing::OneFile folder{"none"};
  std::string identity = models::checkpoint_identity(model).value();
  std::string weights = models::sample_weights(model).value();
  SendModel announced;
  std::vector<std::string> contents;
  std::unique_ptr<nodes::Node> node;

  Ground() {
    announced.identity = identity;
    const auto paths = models::checkpoint_files(model).value();
    for (const std::string& path : paths) {
      std::ifstream file(path, std::ios::binary);
      contents.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
      models::Digest digest;
      digest.add(contents.back());
      announced.files.push_back(
          {std::filesystem::path(path).filename().string(), contents.back().size(), digest.hex()});
    }
    nodes::NodeOptions options;
    options.models = {model};
    options.targets = {model};
    options.loading.threads = 1;
    options.kv_memory_bytes = std::size_t(4) << 20;
    options.accept_models_bytes = std::uint64_t(3) << 20;
    options.model_cache = folder.folder() + "/models";
    node = nodes::Node::open(options).value();
  }
  void forget_models() const {
    std::error_code ignored;
    for (const char* part : {"/models/arriving", "/models/models"})
      for (const auto& each : std::filesystem::directory_iterator(folder.folder() + part, ignored))
        std::filesystem::remove_all(each.path(), ignored); // the node may be removing it, too
  }
};

Ground& ground() {
  static Ground all;
  return all;
}

/// An engine, as the input has it.
class Talk {
public:
  explicit Talk(std::string_view input) : choices_(input), node_(ground().node->port()) {}

  void hold() {
    for (int words = 0; words < words_max && !choices_.over() && !cut_off_; ++words)
      say_next();
    if (!cut_off_)
      await_pong();
  }

private:
  /// What the node knows of a sequence, as long as it believes it.
  struct Sequence {
    int length = 0;
    std::uint32_t chain = 0;
    int window_end = 0;
    std::vector<TokenId> drafted;
    std::vector<OpenedFork> opened;
  };

  template <class Value>
  void say(const Value& value) {
    node_.send(frame(value));
  }
  void say_next();
  void await_pong();
  void await_opened();
  void open_draft();
  void open_stage();
  void draft();
  DraftFrom frontier();
  speculation::SequenceSpec begins();
  void come_true(DraftFrom& from, Sequence& s);
  void run_rows();
  void send_model();
  void send_part();
  void say_bytes();
  void listen();

  Choices choices_;
  Stranger node_;
  std::vector<Drafted> news_;
  std::map<speculation::SequenceId, Sequence> sequences_;
  std::uint32_t chains_ = 0;
  NumberFormat rows_ = NumberFormat::f32;
  std::uint64_t pieces_ = 0;
  bool cut_off_ = false; ///< In the middle of a frame: nothing more is understood.
  std::uint32_t file_ = 0;
  std::uint64_t sent_ = 0;
};

void Talk::say_next() {
  switch (choices_.below(16)) {
  case 0: return open_draft();
  case 1: return open_stage();
  case 2: return say(Survey{});
  case 3: return say(Ping{});
  case 4: return say(ReadClock{});
  case 5: return send_model();
  case 6: return send_part();
  case 7: return listen();
  case 8:
  case 9:
  case 10: return run_rows();
  case 11: return choices_.rarely() ? say_bytes() : listen();
  default: return draft();
  }
}

/// All that was said has been taken, or the node has ended the connection.
void Talk::await_pong() {
  say(Ping{});
  node_.listen([this](auto value) {
    if constexpr (std::is_same_v<decltype(value), Drafted>)
      news_.push_back(std::move(value));
    return std::is_same_v<decltype(value), Pong>;
  });
}

/// What was asked for is there, or refused; some do not wait for that.
void Talk::await_opened() {
  if (choices_.rarely())
    return;
  node_.listen([]([[maybe_unused]] auto value) {
    using Value = decltype(value);
    return std::is_same_v<Value, DraftOpened> || std::is_same_v<Value, StageOpened> ||
           std::is_same_v<Value, Refused>;
  });
}

void Talk::listen() {
  await_pong();
  for (const Drafted& news : std::exchange(news_, {}))
    for (const DraftedTokens& of : news.chains) {
      Sequence& s = sequences_[of.sequence];
      s.drafted.insert(s.drafted.end(), of.tokens.begin(), of.tokens.end());
      s.opened.insert(s.opened.end(), of.opened.begin(), of.opened.end());
    }
}

void Talk::open_draft() {
  OpenDraft hello;
  hello.device = choices_.text("");
  hello.model = "demo";
  hello.identity = choices_.text(ground().identity);
  hello.vocabulary = choices_.number(vocabulary);
  hello.max_model_len = choices_.number(256);
  hello.max_num_seqs = choices_.number(2);
  hello.fork_rows = choices_.number(8);
  hello.only_asks = choices_.rarely();
  say(hello);
  await_opened();
}

void Talk::open_stage() {
  OpenStage hello;
  hello.device = choices_.text("");
  hello.model = "demo";
  hello.identity = choices_.text(ground().identity);
  hello.layers.weights = choices_.text(ground().weights);
  hello.layers.first = choices_.number(choices_.below(layers));
  hello.layers.count = choices_.number(1);
  hello.layers.dtype = NumberFormat(choices_.number(0));
  hello.layers.max_positions = choices_.number(256);
  if (choices_.rarely())
    hello.layers.blocks =
        gpu::Quantization{WeightFormat(choices_.number(0)), ScaleChoice(choices_.number(0))};
  hello.page_tokens = choices_.number(page_tokens);
  hello.pages = choices_.number(std::uint64_t(16));
  rows_ = choices_.below(2) == 0 ? NumberFormat::f32 : NumberFormat::bf16;
  hello.rows = NumberFormat(choices_.number(int(rows_)));
  hello.only_asks = choices_.rarely();
  say(hello);
  await_opened();
}

speculation::SequenceSpec Talk::begins() {
  speculation::SequenceSpec spec;
  spec.prompt_tokens = choices_.number(1 + choices_.below(64));
  spec.max_tokens = choices_.number(64);
  spec.rule = sampling::Rule(choices_.number(choices_.below(3)));
  if (choices_.below(4) > 0)
    spec.warping.temperature = choices_.real(0.8f);
  spec.warping.top_k = choices_.number(choices_.below(2) * 16);
  spec.warping.top_p = choices_.real(1);
  spec.warping.min_p = choices_.real(0);
  spec.warping.repetition_penalty = choices_.real(1);
  spec.warping.presence_penalty = choices_.real(0);
  spec.warping.frequency_penalty = choices_.real(0);
  if (choices_.rarely())
    spec.warping.logit_bias = {{choices_.number(3), choices_.real(1)}};
  if (choices_.rarely())
    spec.warping.allowed = {choices_.number(3), choices_.number(7)};
  if (choices_.rarely())
    spec.warping.held_back = {choices_.number(3)};
  spec.warping.min_tokens = choices_.number(0);
  spec.noise.seed = choices_.number(std::uint64_t(7));
  return spec;
}

/// Some of what was drafted, and a token behind it; or a fork's outcome.
void Talk::come_true(DraftFrom& from, Sequence& s) {
  const int most = int(s.drafted.size());
  const int hits = most == 0 ? 0 : choices_.below(most + 1);
  from.tokens.assign(s.drafted.begin(), s.drafted.begin() + hits);
  const bool goes_on = hits > 0 && choices_.below(2) == 0;
  if (goes_on) {
    from.chain = s.chain;
    s.drafted.erase(s.drafted.begin(), s.drafted.begin() + hits);
    return;
  }
  from.chain = ++chains_;
  from.tokens.push_back(choices_.number(5));
  if (!s.opened.empty() && choices_.below(2) == 0) {
    const OpenedFork& fork = s.opened[std::size_t(choices_.below(int(s.opened.size())))];
    from.fork = choices_.number(fork.attempt);
    from.tokens.back() = fork.token;
  }
  s.drafted.clear();
  s.opened.clear();
}

DraftFrom Talk::frontier() {
  DraftFrom from;
  from.sequence = choices_.number(std::uint64_t(choices_.below(4)));
  const bool fresh = !sequences_.contains(from.sequence);
  Sequence& s = sequences_[from.sequence];
  from.epoch = {1, choices_.number(std::uint64_t(++chains_))};
  if (fresh ? !choices_.rarely() : choices_.rarely()) {
    from.begins = begins();
    const int prompt = std::clamp(from.begins->prompt_tokens, 0, 512);
    from.tokens.assign(std::size_t(choices_.number(std::uint8_t(prompt))), choices_.number(9));
    from.chain = ++chains_;
    s = {};
  } else {
    come_true(from, s);
  }
  from.known = choices_.number(s.length);
  s.length += int(from.tokens.size());
  from.start = choices_.number(from.chain == s.chain ? 0 : s.length);
  s.chain = from.chain;
  s.window_end = s.length + choices_.below(8);
  from.window_end = choices_.number(s.window_end);
  from.limit = choices_.number(s.window_end + choices_.below(8));
  from.chain = choices_.number(from.chain);
  from.reads = choices_.rarely();
  from.guesses = choices_.below(4) == 0;
  if (choices_.below(2) == 0) {
    from.forking.emplace();
    from.forking->rows = choices_.number(std::uint8_t(4));
    from.forking->window = choices_.number(std::uint8_t(4));
    from.forking->most = choices_.number(std::uint8_t(4));
    from.forking->beyond = choices_.number(std::uint8_t(0));
    from.forking->odds.fill(choices_.number(std::uint8_t(200)));
  }
  return from;
}

void Talk::draft() {
  DraftWork work;
  for (int i = choices_.rarely() ? choices_.below(8) : 0; i > 0; --i)
    work.over.push_back(std::uint64_t(choices_.below(6)));
  for (int i = choices_.rarely() ? choices_.below(16) : 1; i > 0; --i)
    work.sequences.push_back(frontier());
  for (const auto id : work.over)
    sequences_.erase(id);
  say(work);
}

void Talk::run_rows() {
  StageRows rows;
  rows.piece = choices_.number(pieces_++);
  int count = 0;
  for (int i = 1 + (choices_.rarely() ? choices_.below(8) : 0); i > 0; --i) {
    StageSequence& sequence = rows.sequences.emplace_back();
    for (int page = choices_.number(std::uint8_t(4)); page > 0; --page)
      sequence.pages.push_back(choices_.number(std::uint32_t(choices_.below(16))));
    sequence.rows = choices_.number(1 + choices_.below(16));
    sequence.start = choices_.number(choices_.below(32));
    sequence.logits_from = choices_.number(choices_.below(2));
    count += std::clamp(sequence.rows, 0, 1024);
  }
  for (int i = choices_.rarely() ? choices_.below(8) : 0; i > 0; --i)
    rows.copies.push_back({choices_.number(std::uint32_t(choices_.below(16))),
                           choices_.number(std::uint32_t(choices_.below(16)))});
  const int bytes = rows_ == NumberFormat::f32 ? 4 : 2;
  rows.values.resize(std::size_t(count) * hidden * std::size_t(bytes),
                     char(choices_.number(std::uint8_t(60))));
  if (choices_.rarely())
    rows.values.resize(rows.values.size() / 2 + 3);
  say(rows);
}

void Talk::send_model() {
  SendModel what = ground().announced;
  what.identity = choices_.text(what.identity);
  if (choices_.rarely())
    what.files.resize(std::size_t(choices_.below(8)));
  for (ModelFile& file : what.files) {
    file.name = choices_.text(file.name);
    file.size = choices_.number(file.size);
    file.sha256 = choices_.text(file.sha256);
  }
  say(what);
}

/// The next one, as if nothing of the model had been there.
void Talk::send_part() {
  if (file_ >= ground().contents.size())
    file_ = 0;
  const std::string& from = ground().contents[file_];
  ModelPart part{choices_.number(file_), choices_.number(sent_),
                 from.substr(sent_, nodes::limits::model_part_bytes)};
  if (choices_.rarely())
    part.bytes.resize(part.bytes.size() / 2);
  sent_ += part.bytes.size();
  if (sent_ >= from.size()) {
    ++file_;
    sent_ = 0;
  }
  say(part);
}

/// What is no value at all.
void Talk::say_bytes() {
  const auto kind = FrameKind(choices_.number(std::uint16_t(choices_.below(24))));
  std::string content(std::size_t(choices_.below(64)), '\0');
  for (char& each : content)
    each = char(choices_.below(256));
  const auto size = choices_.number(std::uint32_t(content.size()));
  const auto header = nodes::write_header({choices_.number(nodes::node_protocol), kind, size});
  std::vector<char> bytes(header.begin(), header.end());
  bytes.insert(bytes.end(), content.begin(), content.end());
  node_.send(bytes);
  cut_off_ = size != content.size();
}

/// The node serves others, and lets go of who was there.
void check_node_lives() {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + nodes::limits::session_patience;
  for (int engines = 0; engines != 1;) {
    Stranger other(ground().node->port());
    other.send(frame(Survey{}));
    const auto all = other.read<Surveyed>();
    require(all.has_value(), "a node serves others, whatever one engine says");
    require(Clock::now() < until, "a node lets go of an engine that is gone");
    engines = all->engines;
  }
}

} // namespace

void paceline::testing::fuzz(std::string_view input) {
  Talk(input).hold();
  check_node_lives();
  ground().forget_models();
}
