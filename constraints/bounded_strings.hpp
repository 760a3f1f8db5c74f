// Strings of bounded length in xgrammar's grammars. tools/xgrammar puts calls of this into its
// sources, which are C++17.
//
// xgrammar works out ahead which tokens each state of a form takes. A bounded string has a state
// for each of its characters, each of which takes most of the vocabulary: with 150,000 tokens
// `maxLength: 24` took 0.7 s, and where the string may soon end a mask took up to 13 ms. So such a
// string is one automaton, its closing quote included; its states' masks are worked out when they
// are first asked for; and tokens that it takes whole are found by following its bytes alone.
#pragma once

#include "constraints/limits.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

namespace paceline::constraints {

inline constexpr std::string_view bounded_string_begin = R"("[^"\\\x00-\x1f]{)";

/// Returns the regular expression of JSON strings that have `least` to `most` characters (most < 0:
/// any more), none of them escaped.
inline std::string bounded_string(int least, int most) {
  return std::string(bounded_string_begin) + std::to_string(least) + ',' +
         (most < 0 ? "" : std::to_string(most)) + "}\"";
}

inline bool can_be_bounded_string(int least, int most) {
  return least >= 0 && least <= limits::string_states_max && most <= limits::string_states_max;
}

/// Returns whether the expression is that of such a string.
inline bool is_bounded_string(std::string_view regex) {
  if (regex.substr(0, bounded_string_begin.size()) != bounded_string_begin)
    return false;
  const char* at = regex.data() + bounded_string_begin.size();
  const char* const end = regex.data() + regex.size();
  int least = 0, most = -1;
  auto read = std::from_chars(at, end, least);
  if (read.ec != std::errc() || read.ptr == end || *read.ptr != ',')
    return false;
  at = read.ptr + 1;
  if (read = std::from_chars(at, end, most); read.ec == std::errc())
    at = read.ptr;
  return std::string_view(at, std::size_t(end - at)) == "}\"" && can_be_bounded_string(least, most);
}

/// Follows the bytes of tokens through the automaton of one rule.
template <class Automaton>
class ByteWalk {
public:
  ByteWalk(const Automaton& automaton, int begin) : automaton_(automaton), path_{row_of(begin)} {}

  /// Returns whether the rule takes the whole token and has not ended before. It may say false of a
  /// token that is taken by one of several paths; true is always so. Tokens in their order go
  /// fastest. A token must outlive the next call.
  bool takes(const std::string& token) {
    const auto differs = std::mismatch(token.begin(), token.end(), last_.begin(), last_.end());
    const auto shared = std::size_t(differs.first - token.begin());
    const bool ended = path_.back() == none; // behind the byte of `last_` that was not taken
    if (ended && shared + 1 >= path_.size())
      return false;
    path_.resize(std::min(shared + 1, path_.size()));
    last_ = token;
    for (std::size_t n = path_.size() - 1; n < token.size(); ++n) {
      path_.push_back(next(path_.back(), static_cast<unsigned char>(token[n])));
      if (path_.back() == none)
        return false;
    }
    return true;
  }

private:
  static constexpr int none = -1, unknown = -2;
  struct Row {
    int state;
    std::array<int, 256> next; ///< Index of a row, by byte.
  };

  int row_of(int state) {
    const auto [at, fresh] = index_.emplace(state, int(rows_.size()));
    if (fresh) {
      rows_.push_back({state, {}});
      rows_.back().next.fill(unknown);
    }
    return at->second;
  }

  int next(int row, unsigned char byte) {
    if (rows_[std::size_t(row)].next[byte] == unknown) {
      int found = none;
      for (const auto& edge : automaton_.GetEdges(rows_[std::size_t(row)].state))
        if (edge.IsCharRange() && edge.min <= byte && byte <= edge.max) {
          found = row_of(edge.target);
          break;
        }
      rows_[std::size_t(row)].next[byte] = found;
    }
    return rows_[std::size_t(row)].next[byte];
  }

  const Automaton& automaton_;
  std::unordered_map<int, int> index_{}; ///< Rows by the automaton's state.
  std::vector<Row> rows_{};
  std::string_view last_{};
  std::vector<int> path_; ///< Rows behind none of the bytes of `last_`, the first one, and so on.
};

/// How many masks the forms of one compiler may still keep of those that were asked for. Threads:
/// all members from any.
class MaskRoom {
public:
  /// While it lives, forms that this thread compiles share a room.
  class Use {
  public:
    explicit Use(std::shared_ptr<MaskRoom> room);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

  private:
    std::shared_ptr<MaskRoom> outer_;
  };
  /// Returns the room in use on this thread; null: there is none.
  static std::shared_ptr<MaskRoom> used();

  explicit MaskRoom(std::size_t masks) : left_(masks) {}
  bool full() const { return left_ == 0; }
  /// Returns false if the room is full.
  bool take() {
    std::size_t left = left_;
    while (left > 0 && !left_.compare_exchange_weak(left, left - 1)) {
    }
    return left > 0;
  }
  void give_back(std::size_t masks) { left_ += masks; }

private:
  std::atomic<std::size_t> left_;
};

/// Masks of one form that are worked out when they are first asked for, and kept while there is
/// room. Masks: a map from states to masks. Threads: `find` from any.
template <class Masks>
class LaterMasks {
public:
  using State = typename Masks::key_type;
  using Entry = typename Masks::value_type;

  LaterMasks() = default;
  LaterMasks(const LaterMasks&) = delete;
  LaterMasks& operator=(const LaterMasks&) = delete;
  ~LaterMasks() {
    if (room_)
      room_->give_back(kept_.size());
  }

  /// Works out the mask of a state; empty: all masks are there already.
  std::function<typename Masks::mapped_type(const State&)> work_out{};

  /// Returns the state's mask, from `ready` where it has it; null: there is none.
  std::shared_ptr<const Entry> find(const Masks& ready, const State& state) {
    if (const auto at = ready.find(state); at != ready.end())
      return {std::shared_ptr<void>(), &*at};
    if (!work_out)
      return nullptr;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (const auto at = kept_.find(state); at != kept_.end())
        return at->second;
    }
    const auto entry = std::make_shared<const Entry>(state, work_out(state));
    const std::lock_guard<std::mutex> lock(mutex_);
    if (room_ && kept_.find(state) == kept_.end() && room_->take())
      kept_.emplace(state, entry);
    return entry;
  }

private:
  const std::shared_ptr<MaskRoom> room_ = MaskRoom::used();
  std::mutex mutex_{};
  std::unordered_map<State, std::shared_ptr<const Entry>, typename Masks::hasher,
                     typename Masks::key_equal>
      kept_{};
};

} // namespace paceline::constraints
