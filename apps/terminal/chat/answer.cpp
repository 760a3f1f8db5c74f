#include "apps/terminal/chat/answer.hpp"

#include "apps/console/output.hpp"
#include "apps/console/screen_text.hpp"
#include "apps/console/session.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace paceline::apps {
namespace {

constexpr std::chrono::milliseconds refresh_pause{100};
constexpr std::chrono::milliseconds resize_pause{500};

/// Returns the columns for text. The last column stays free: with a character there terminals
/// differ in where the cursor is.
int text_columns(const ScreenSize& size) {
  return std::max(size.columns - 1, 1);
}

std::string share(const char* name, double part, double whole) {
  return whole > 0 ? fmt::format(", {} {:.2f}", name, part / whole) : std::string();
}

} // namespace

AnswerView::AnswerView(Output& out, const Engine& engine, AnswerParts& parts, AnswerLook look)
    : out_(out), engine_(engine), parts_(parts), look_(look), before_(engine.metrics()),
      begin_(std::chrono::steady_clock::now()), next_(begin_), size_(screen_size()),
      steady_(begin_) {}

void AnswerView::show(const Delta& delta) {
  tokens_ += delta.tokens.size();
  const ScreenSize size = screen_size();
  const std::string text = written(parts_of(delta), text_columns(size));
  if (!look_.safe) {
    out_.write(text);
    return;
  }
  refresh();
  out_.write(status_.write(text, size.columns, has_room(size)));
}

std::vector<AnswerParts::Shown> AnswerView::parts_of(const Delta& delta) {
  if (!look_.shaded)
    return parts_.read(delta.text, {});
  for (std::size_t i = 0; i < delta.tokens.size(); ++i)
    shader_.token(engine_.token_bytes(delta.tokens[i], !look_.special), delta.sources[i]);
  std::vector<AnswerParts::Shown> all;
  for (const Shader::Part& part : shader_.cut(delta.text))
    for (AnswerParts::Shown& one : parts_.read(part.text, part.source))
      all.push_back(std::move(one));
  return all;
}

/// Returns what to print of the parts.
std::string AnswerView::written(const std::vector<AnswerParts::Shown>& parts, int columns) {
  std::string text;
  for (const AnswerParts::Shown& part : parts)
    text += look_.safe ? wrap_.write(printable(part.text), part.shade, columns) : part.text;
  return text;
}

/// Whether figures can be shown. Terminals report a new size after they have moved what they show:
/// while the size changes, and while the last line ends at an unknown column because it was written
/// before, no figures are shown.
bool AnswerView::has_room(const ScreenSize& size) {
  const auto now = std::chrono::steady_clock::now();
  if (size.columns != size_.columns || size.rows != size_.rows)
    steady_ = now + resize_pause;
  size_ = size;
  return now >= steady_ && wrap_.column() <= text_columns(size);
}

void AnswerView::refresh() {
  const auto now = std::chrono::steady_clock::now();
  if (!look_.status || now < next_)
    return;
  next_ = now + refresh_pause;
  status_.set(figures());
}

std::string AnswerView::figures() const {
  const Metrics now = engine_.metrics();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin_;
  const double rate = took.count() > 0 ? double(tokens_) / took.count() : 0;
  return speed_text(tokens_, tokens_ > 1 ? rate : 0) +
         share("acceptance", double(now.accepted - before_.accepted),
               double(now.judged - before_.judged)) +
         share("overlap", now.overlapped_seconds - before_.overlapped_seconds,
               now.draft_busy_seconds - before_.draft_busy_seconds) +
         " (Ctrl-C stops)";
}

void AnswerView::finish() {
  const int columns = text_columns(screen_size());
  out_.write(status_.clear() + written(parts_.finish(), columns) + wrap_.finish(columns) + "\n");
}

std::string answer_figures(const Finished& end) {
  const SpeculationStats& s = end.speculation;
  std::string text = speed_text(std::uint64_t(end.usage.completion_tokens), decode_rate(end));
  text += share("acceptance", double(s.accepted), double(s.judged));
  if (s.drafted > 0)
    text += fmt::format(", overlap {:.2f}", s.overlap_ratio);
  return text + fmt::format(", {} of {} prompt tokens cached", end.usage.cached_tokens,
                            end.usage.prompt_tokens);
}

} // namespace paceline::apps
