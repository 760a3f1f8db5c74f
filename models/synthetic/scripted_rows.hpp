// The distributions of a scripted model, as a function of the last few tokens.
#pragma once

#include "models/synthetic/scripted_options.hpp"
#include "paceline/request.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace paceline::models {

/// Mixes bits with the finalizer of Steele, Lea and Flood 2014, "Fast splittable pseudorandom
/// number generators".
std::uint64_t mix(std::uint64_t x);
/// Hashes what a row is a function of: the seed and the last `memory` tokens (fewer at the start).
std::uint64_t hash_context(const ScriptedOptions& options, std::span<const TokenId> context);
/// Returns the row of a context with this hash: [vocabulary], sums to 1.
std::vector<double> row_of(const ScriptedOptions& options, std::uint64_t context);

/// Returns the distribution after `context` (its last `memory` tokens): [vocabulary], sums to 1.
std::vector<double> scripted_row(const ScriptedOptions& options, std::span<const TokenId> context);

} // namespace paceline::models
