// How many sequences a device has memory for.
#pragma once

#include "paceline/engine.hpp"
#include "paceline/error.hpp"

#include <cstdint>

namespace paceline::apps::theory {

struct ModelBytes {
  double weights = 0;
  double token = 0; ///< Keys and values of a position.
};

/// Returns what a model takes of one device, by its files alone. engine: target, dtype and formats
/// of its weights. Errors: those of opening it.
Result<ModelBytes> model_bytes(const EngineOptions& engine);

/// Returns B = floor((memory - weights) / (length x bytes of a position)) of Agrawal et al. 2023
/// (SARATHI), section 4.3: the sequences of `length` that fit beside the weights. 0: none does.
std::int64_t sequences_that_fit(double memory, const ModelBytes& model, int length);

/// Returns the tokens of prompts for each one of an answer at which every chunk has room for all
/// other sequences' decodes, C / (B - 1) (the same paper, section 4.3). sequences: more than 1.
double best_prompt_share(int chunk, std::int64_t sequences);

} // namespace paceline::apps::theory
