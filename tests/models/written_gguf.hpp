// GGUF files that quantize_checkpoint writes, and what they are compared with.
#pragma once

#include "models/checkpoint/gguf_files.hpp"
#include "models/quantize_options.hpp"
#include "tests/models/gguf_cases.hpp"
#include "tests/models/support.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace paceline::models::test {

/// Writes a case's folder with its texts.
void write_whole(const TemporaryFolder& folder, const GgufCase& own, gpu::DType dtype);

QuantizeOptions as(WeightFormat format, std::optional<WeightFormat> head = {});
/// Writes, or fails to: the test ends where it turns out otherwise.
QuantizationReport written(const std::string& from, const std::string& to,
                           const QuantizeOptions& options);
Error not_written(const std::string& from, const std::string& to, const QuantizeOptions& options);
bool names_it(const Error& error, std::string_view text);

std::shared_ptr<const GgufFiles> files_at(const std::string& file);
std::string type_in(const GgufFiles& files, const std::string& tensor);
/// Checks that both files have the same tensors, byte for byte.
void check_twins(const std::string& a, const std::string& b);
/// Returns the logits of what lies there.
Rows logits_at_location(const std::string& location, int vocabulary = 160);
/// Returns the error of all logits, over their size.
double relative_error(const Rows& rows, const Rows& expected);

} // namespace paceline::models::test
