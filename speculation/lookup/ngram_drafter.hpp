// Prompt look-up: what followed when the last few tokens stood there before?
#pragma once

#include "paceline/drafter.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>

namespace paceline::speculation {

/// The latest earlier place of the last `n` tokens in a sequence's own text, and what followed them
/// there, token for token (Saxena 2023, "Prompt lookup decoding"). Every proposal is a point mass.
class NgramDrafter final : public Drafter {
public:
  static constexpr std::size_t n = 3;

  void begin(const DraftedSequence& sequence, std::span<const TokenId> tokens) override;
  void end(std::uint64_t sequence, std::span<const TokenId> tokens) override;
  void propose(std::span<DraftTask* const> tasks) override;

private:
  struct Text {
    std::unordered_map<std::uint64_t, std::size_t> behind; ///< Where what follows n tokens begins.
    std::size_t indexed = n;                               ///< Places before this one are there.
    void index(std::span<const TokenId> committed);
  };
  static void propose(Text& text, DraftTask& task);

  std::map<std::uint64_t, Text> texts_;
};

} // namespace paceline::speculation
