// The demo's models as GGUF files of blocks.
#pragma once

#include "tests/support/temporary_folder.hpp"

#include <string>

namespace paceline::models::test {

/// Writes the demo's `role` to a file of Q4_0 and Q8_0, and returns its path. Queries and keys have
/// other blocks than values, with which they are one weight. Bytes are the tokenizer's tokens: any
/// text can be told to it.
std::string quantized_demo(const testing::TemporaryFolder& folder, const std::string& role);

} // namespace paceline::models::test
