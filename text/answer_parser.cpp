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

  TextSpan told() const { return out_.told(); }

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
  Reading<bool> channels();
  Reading<bool> header(std::string& channel, std::string& recipient);
  Reading<bool> recipient_of(std::string& recipient);
  Reading<bool> message(AnswerPiece::Kind kind);
  Reading<std::string> word();
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
      out_.text(Kind::reasoning, *c, in_.at() - 1, true);
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
    out_.text(AnswerPiece::Kind::content, *c, in_.at() - 1, calls_.has_value());
  }
  out_.finish(AnswerPiece::Kind::content);
  co_return true;
}

/// Reads letters and what else names have.
Reading<std::string> AnswerParser::State::word() {
  std::string word;
  for (auto c = co_await in_.peek(); c && !is_blank(*c) && *c != '<'; c = co_await in_.peek()) {
    word += *c;
    in_.skip();
  }
  co_return word;
}

/// Reads whom a message is for, if it says so.
Reading<bool> AnswerParser::State::recipient_of(std::string& recipient) {
  const auto from = in_.at();
  for (auto c = co_await in_.peek(); c && is_blank(*c); c = co_await in_.peek())
    in_.skip();
  const bool told = co_await accept("to=");
  if (told)
    recipient = co_await word();
  else
    in_.go_back(from);
  if (recipient == "assistant") // which is nobody else
    recipient.clear();
  co_return told;
}

/// Reads a message's header: its channel, whom it is for, and what form it has, which does not
/// matter. The first message's beginning is the prompt's end.
Reading<bool> AnswerParser::State::header(std::string& channel, std::string& recipient) {
  auto from = in_.at();
  const bool started = co_await accept("<|start|>assistant");
  if (!started)
    in_.go_back(from);
  co_await recipient_of(recipient);
  for (bool more = true; more;) { // models change their minds
    from = in_.at();
    more = co_await accept("<|channel|>");
    if (!more)
      break;
    channel = co_await word();
    co_await recipient_of(recipient);
  }
  in_.go_back(from);
  for (auto c = co_await in_.peek(); c && is_blank(*c); c = co_await in_.peek())
    in_.skip();
  from = in_.at();
  const bool constrained = co_await accept("<|constrain|>");
  if (!constrained)
    in_.go_back(from);
  co_await word();
  co_return co_await accept("<|message|>");
}

/// Reads a message up to its end, or to that of the text.
Reading<bool> AnswerParser::State::message(AnswerPiece::Kind kind) {
  constexpr std::string_view ends[] = {"<|end|>", "<|call|>", "<|return|>"};
  for (auto c = co_await in_.peek(); c; c = co_await in_.peek()) {
    in_.hold(ends[2].size());
    const auto from = in_.at();
    for (const std::string_view end : ends) {
      const bool ended = co_await accept(end);
      if (ended) {
        out_.drop_blanks();
        in_.release();
        co_return true;
      }
      in_.go_back(from);
    }
    in_.release();
    in_.skip();
    out_.text(kind, *c, in_.at() - 1, true);
  }
  out_.finish(kind);
  co_return false;
}

/// Reads messages. Where no header is, the rest is content.
Reading<bool> AnswerParser::State::channels() {
  constexpr std::string_view functions = "functions.";
  for (auto c = co_await in_.peek(); c; c = co_await in_.peek()) {
    in_.hold(limits::call_head_bytes_max);
    const auto from = in_.at();
    std::string channel;
    std::string recipient;
    const bool headed = co_await header(channel, recipient);
    if (!headed) {
      in_.go_back(from);
      in_.release();
      co_return co_await content();
    }
    const auto body = in_.at();
    bool called = calls_ && recipient.starts_with(functions);
    if (called)
      called = co_await calls_->call_of(recipient.substr(functions.size()));
    if (!called)
      in_.go_back(body);
    in_.release();
    const bool thinks = !called && recipient.empty() && channel == "analysis";
    co_await message(thinks ? AnswerPiece::Kind::reasoning : AnswerPiece::Kind::content);
  }
  out_.finish(AnswerPiece::Kind::content);
  co_return true;
}

Reading<bool> AnswerParser::State::answer() {
  if (options_.reasoning && options_.reasoning->channels)
    co_return co_await channels();
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

TextSpan AnswerParser::content() const {
  return state_->told();
}

std::vector<AnswerPiece> AnswerParser::finish() {
  return state_->finish();
}

} // namespace paceline::text
