// The choices of a router, by which the rows of a step go to experts of a mixture.
#pragma once

#include "base/host_device.hpp"

#include <cstddef>
#include <cstdint>

namespace paceline::gpu {

/// What a router's scores are made of before experts are chosen: each the expert's part of a
/// softmax over the row, or each by itself.
enum class RouterScores { softmax, sigmoid };

/// Added to a sum of weights that others are divided by, which may be 0 where sigmoids are.
inline constexpr float router_sum_least = 1e-20f;

/// How a router's scores become the weights of the experts that a row goes to. Sigmoids and groups
/// are those of DeepSeek-V3 (2024), sections 2.1.2 and 2.1.3.
struct RouterOptions {
  bool normalised = false; ///< The weights of a row's experts are divided by their sum.
  RouterScores scores = RouterScores::softmax;
  float scale = 1; ///< Factor of the weights, after they were normalised.
  /// Experts are in `groups` of as many neighbours, two or more. A row goes to experts of
  /// `groups_used` groups only: those whose two best experts have the highest sum. One group: to
  /// any.
  int groups = 1;
  int groups_used = 1;
  /// [experts], f32, in device memory: factors of the experts' weights, at the end; null: none.
  const float* expert_scales = nullptr;

  bool operator==(const RouterOptions&) const = default;
};

/// The choices of a router (Shazeer et al. 2017, section 2.1): each row goes to `top_k` of
/// `experts`, weighted. A row's choice of one expert is a *pick*, the number row * top_k + k, from
/// the highest score down. Its *slot* is its place among all picks in the order of experts, and of
/// rows within an expert. Rows between two products of a mixture lie in their slots, so each
/// expert's are together. A view of device memory, which Operations::route fills.
struct Routing {
  int rows = 0;
  int experts = 0;
  int top_k = 0;
  float* weights = nullptr;         ///< [picks]
  std::int32_t* chosen = nullptr;   ///< [picks]: the expert of each pick.
  std::int32_t* slots = nullptr;    ///< [picks]: the slot of each pick.
  std::int32_t* picks_of = nullptr; ///< [picks]: the pick in each slot.
  std::int32_t* first = nullptr;    ///< [experts + 1]: the first slot of each expert; the end.

  PACELINE_HOST_DEVICE int picks() const { return rows * top_k; }
  bool operator==(const Routing&) const = default;

  /// Returns the bytes of a routing of so many rows.
  static std::size_t bytes(int rows, int experts, int top_k) {
    return (4 * std::size_t(rows) * std::size_t(top_k) + std::size_t(experts) + 1) *
           sizeof(std::int32_t);
  }
  /// Returns a routing of the first `count` rows in memory for `bytes` of as many rows or more.
  static Routing in(std::byte* memory, int count, int experts, int top_k) {
    const std::size_t picks = std::size_t(count) * std::size_t(top_k);
    auto* const numbers = reinterpret_cast<std::int32_t*>(memory);
    return {count,
            experts,
            top_k,
            reinterpret_cast<float*>(memory),
            numbers + picks,
            numbers + 2 * picks,
            numbers + 3 * picks,
            numbers + 4 * picks};
  }
};

/// The order of the rows that a product by experts reads.
enum class RoutedRows {
  by_row, ///< As a batch has them; each is read by all experts that it goes to.
  by_slot ///< In slots, one for each pick.
};

} // namespace paceline::gpu
