// Prompt look-up proposes what followed the last few tokens where they stood before.
#pragma once

#include "paceline/drafter.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>

namespace paceline::speculation {

/// Finds the latest earlier place of the last `n` tokens in a sequence's own text and proposes what
/// followed there, token for token (Saxena 2023, "Prompt lookup decoding"). Every proposal is a
/// point mass.
class NgramDrafter final : public Drafter {
public:
  static constexpr std::size_t n = 3;

  void begin(const DraftedSequence& sequence, std::span<const TokenId> tokens) override;
  void end(std::uint64_t sequence, std::span<const TokenId> tokens) override;
  void propose(std::span<DraftTask* const> tasks) override;

private:
  struct Text {
    std::unordered_map<std::uint64_t, std::size_t> behind; ///< Position behind n tokens, by hash.
    std::size_t indexed = n;                               ///< Positions before it are in `behind`.
    void index(std::span<const TokenId> committed);
  };
  static void propose(Text& text, DraftTask& task);

  std::map<std::uint64_t, Text> texts_;
};

} // namespace paceline::speculation
