// What the tensors of a GGUF file hold: which of them are matrices, and the numbers of these.
#pragma once

#include "models/checkpoint/gguf.hpp"
#include "models/checkpoint/tensor_source.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace paceline::models {

/// Returns the part of a model that a tensor of this name counts as.
ModelPart gguf_part_of(std::string_view name);

/// Returns whether a tensor of this name and shape is a matrix, or one for each expert, whose type
/// says how the model is stored. Routers, convolutions, rates and positions are f32 in every file
/// that is written here, and so are biases, which all experts have in one tensor.
bool is_matrix(std::string_view name, std::span<const std::int64_t> shape);

/// Decodes `elements` numbers of a type to f32. from: with any alignment; to: [elements]
void decode(GgufType type, const std::byte* from, std::size_t elements, float* to);

/// Returns all numbers of a tensor.
std::vector<float> values_of(const GgufTensor& tensor);

} // namespace paceline::models
