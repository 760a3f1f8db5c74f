#include "text/answer_parser.hpp"

#include "text/limits.hpp"
#include "text/tool_calls/call_reader.hpp"

namespace paceline::text {

/// The reading of one answer. It does not move, since its functions know where it is.
class AnswerParser::State {
public:
  explicit State(Options options) : options_(std::move(options)) {
    if (options_.tools)
      calls_.emplace(*options_.tools, options_.functions, in_, out_);
    answer_.emplace(answer());
    answer_->begin(turn_);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() = default;

  std::vector<AnswerPiece> feed(std::string_view text) {
    in_.add(text);
    return run();
  }
  std::vector<AnswerPiece> finish() {
    in_.end();
    return run();
  }

private:
  std::vector<AnswerPiece> run() {
    in_.run(turn_);
    answer_->check();
    return out_.take();
  }

  Reading<bool> answer();
  Reading<bool> opens_reasoning();
  Reading<bool> reasoning();
  Reading<bool> content();
  Reading<bool> accept(std::string_view text);

  const Options options_;
  Source in_;
  Pieces out_;
  Turn turn_;
  std::optional<CallReader> calls_;
  std::optional<Reading<bool>> answer_;
};

Reading<bool> AnswerParser::State::accept(std::string_view text) {
  for (const char wanted : text) {
    const auto next = co_await in_.peek();
    if (next != wanted)
      co_return false;
    in_.skip();
  }
  co_return true;
}

/// Reads the opening mark, if the answer begins with it.
Reading<bool> AnswerParser::State::opens_reasoning() {
  in_.hold(limits::call_head_bytes_max);
  const auto from = in_.at();
  for (auto c = co_await in_.peek(); c && is_blank(*c); c = co_await in_.peek())
    in_.skip();
  const bool opens = co_await accept(options_.reasoning->opening);
  if (!opens)
    in_.go_back(from);
  in_.release();
  co_return opens;
}

/// Reads up to the closing mark, and the blanks behind it.
Reading<bool> AnswerParser::State::reasoning() {
  using Kind = AnswerPiece::Kind;
  const std::string_view closing = options_.reasoning->closing;
  bool begun = false;
  for (auto c = co_await in_.peek(); c; c = co_await in_.peek()) {
    in_.hold(closing.size());
    const auto from = in_.at();
    const bool closed = co_await accept(closing);
    if (closed) {
      out_.drop_blanks();
      in_.release();
      for (c = co_await in_.peek(); c && is_blank(*c); c = co_await in_.peek())
        in_.skip();
      co_return true;
    }
    in_.go_back(from);
    in_.release();
    in_.skip();
    begun = begun || !is_blank(*c);
    if (begun)
      out_.text(Kind::reasoning, *c, true);
  }
  out_.finish(Kind::reasoning);
  co_return false;
}

Reading<bool> AnswerParser::State::content() {
  for (auto c = co_await in_.peek(); c; c = co_await in_.peek()) {
    const auto from = in_.at();
    bool called = calls_ && calls_->may_begin(*c);
    if (called)
      called = co_await calls_->read();
    if (!called)
      in_.go_back(from);
    in_.release();
    if (called)
      continue;
    in_.skip();
    out_.text(AnswerPiece::Kind::content, *c, calls_.has_value());
  }
  out_.finish(AnswerPiece::Kind::content);
  co_return true;
}

Reading<bool> AnswerParser::State::answer() {
  bool thinks = options_.reasoning != nullptr;
  if (thinks && !options_.in_reasoning)
    thinks = co_await opens_reasoning();
  if (thinks)
    co_await reasoning(); // which may be all that comes
  co_return co_await content();
}

AnswerParser::AnswerParser(Options options) : state_(std::make_unique<State>(std::move(options))) {}
AnswerParser::AnswerParser(AnswerParser&&) noexcept = default;
AnswerParser& AnswerParser::operator=(AnswerParser&&) noexcept = default;
AnswerParser::~AnswerParser() = default;

std::vector<AnswerPiece> AnswerParser::feed(std::string_view text) {
  return state_->feed(text);
}

std::vector<AnswerPiece> AnswerParser::finish() {
  return state_->finish();
}

} // namespace paceline::text
