#include "apps/chat/answer.hpp"

#include "apps/screen_text.hpp"
#include "apps/session.hpp"

#include <fmt/format.h>

namespace paceline::apps {
namespace {

constexpr std::chrono::milliseconds refresh_pause{100};

std::string share(const char* name, double part, double whole) {
  return whole > 0 ? fmt::format(", {} {:.2f}", name, part / whole) : std::string();
}

} // namespace

AnswerView::AnswerView(Output& out, const Engine& engine, AnswerLook look)
    : out_(out), engine_(engine), look_(look), before_(engine.metrics()),
      begin_(std::chrono::steady_clock::now()), next_(begin_) {}

void AnswerView::show(const Delta& delta) {
  tokens_ += delta.tokens.size();
  if (!look_.safe) {
    out_.write(delta.text);
    return;
  }
  std::string text = printable(delta.text);
  const std::string plain = text;
  if (look_.shaded) {
    for (std::size_t i = 0; i < delta.tokens.size(); ++i)
      shader_.token(engine_.token_bytes(delta.tokens[i]), delta.sources[i]);
    text.clear();
    for (const Shader::Part& part : shader_.cut(delta.text))
      text += shaded(printable(part.text), part.source);
  }
  if (!look_.status) {
    out_.write(text);
    return;
  }
  refresh();
  out_.write(status_.write(text, plain, screen_size().columns));
}

void AnswerView::refresh() {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_)
    return;
  next_ = now + refresh_pause;
  status_.set(figures());
}

std::string AnswerView::figures() const {
  const Metrics now = engine_.metrics();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin_;
  const double rate = took.count() > 0 ? double(tokens_) / took.count() : 0;
  return fmt::format("{} tokens, {:.0f} tokens/s", tokens_, rate) +
         share("acceptance", double(now.accepted - before_.accepted),
               double(now.judged - before_.judged)) +
         share("overlap", now.overlapped_seconds - before_.overlapped_seconds,
               now.draft_busy_seconds - before_.draft_busy_seconds) +
         " (Ctrl-C stops)";
}

void AnswerView::finish() {
  if (look_.status)
    out_.write(status_.clear());
  out_.write("\n");
}

std::string answer_figures(const Finished& end) {
  const SpeculationStats& s = end.speculation;
  std::string text =
      fmt::format("{} tokens, {:.0f} tokens/s", end.usage.completion_tokens, decode_rate(end));
  text += share("acceptance", double(s.accepted), double(s.judged));
  if (s.drafted > 0)
    text += fmt::format(", overlap {:.2f}", s.overlap_ratio);
  return text + fmt::format(", {} of {} prompt tokens cached", end.usage.cached_tokens,
                            end.usage.prompt_tokens);
}

} // namespace paceline::apps
