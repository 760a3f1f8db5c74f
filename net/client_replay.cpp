#include "net/client_replay.hpp"

#include <algorithm>

namespace paceline::net {
namespace {

template <class T>
void drop_first(std::vector<T>& values, std::size_t count) {
  values.erase(values.begin(), values.begin() + std::ptrdiff_t(std::min(count, values.size())));
}

} // namespace

void Replay::rewind() {
  again_ = 0;
  again_bytes_ = 0;
}

bool Replay::pass(Event& event) {
  if (auto* delta = std::get_if<Delta>(&event))
    return pass(*delta);
  if (auto* scores = std::get_if<PromptLogprobs>(&event)) {
    if (std::exchange(scores_, true))
      *scores = {};
    return true;
  }
  // An answer that had gone further before cannot end here.
  return again_ == tokens_.size() && again_bytes_ == text_.size();
}

bool Replay::pass(Delta& delta) {
  const std::size_t old = std::min(delta.tokens.size(), tokens_.size() - again_);
  const std::size_t old_bytes = std::min(delta.text.size(), text_.size() - again_bytes_);
  if (!std::equal(delta.tokens.begin(), delta.tokens.begin() + std::ptrdiff_t(old),
                  tokens_.begin() + std::ptrdiff_t(again_)) ||
      delta.text.compare(0, old_bytes, text_, again_bytes_, old_bytes) != 0)
    return false;
  drop_first(delta.tokens, old);
  drop_first(delta.sources, old);
  drop_first(delta.logprobs, old);
  delta.text.erase(0, old_bytes);
  tokens_.insert(tokens_.end(), delta.tokens.begin(), delta.tokens.end());
  text_ += delta.text;
  again_ += old + delta.tokens.size();
  again_bytes_ += old_bytes + delta.text.size();
  return true;
}

bool Replay::empty(const Event& event) {
  if (const auto* delta = std::get_if<Delta>(&event))
    return delta->tokens.empty() && delta->text.empty();
  const auto* scores = std::get_if<PromptLogprobs>(&event);
  return scores && scores->tokens.empty();
}

} // namespace paceline::net
