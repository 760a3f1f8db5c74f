// Any bytes are a safetensors file whose tensors lie within them, or are refused.
#include "models/checkpoint/safetensors.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <span>

void paceline::testing::fuzz(std::string_view input) {
  const std::span file(reinterpret_cast<const std::byte*>(input.data()), input.size());
  const auto entries = models::parse_safetensors("fuzzed.safetensors", file);
  if (!entries)
    return require(entries.error().text().find('\n') == std::string::npos, "an error is one line");
  for (const auto& entry : *entries)
    require(entry.bytes.empty() ||
                (entry.bytes.data() >= file.data() &&
                 entry.bytes.data() + entry.bytes.size() <= file.data() + file.size()),
            "a tensor lies within the file");
}
