// Reference cases whose options GGUF files can have.
#pragma once

#include "gpu/tensor.hpp"
#include "tests/models/support.hpp"

#include <boost/json/object.hpp>
#include <vector>

namespace paceline::models::test {

struct GgufCase {
  const char* name;
  const char* architecture; ///< What files call it.
  boost::json::object change = {};
  /// Heads, and the columns that read them, lie in another order in the file: sums differ.
  bool reordered = false;
};

/// Every architecture that is read.
std::vector<GgufCase> gguf_cases();

/// Writes a case's folder, in one shard.
void write_case(const TemporaryFolder& folder, const GgufCase& own, gpu::DType dtype);
/// Writes a tokenizer of a few letters, a template, and defaults of sampling beside it.
void write_texts(const TemporaryFolder& folder);

} // namespace paceline::models::test
