// Any bytes are a GGUF file whose tensors lie within them, or are refused; and whatever its keys
// say, they are a model's configuration, tokenizer and defaults, or an error of one line.
#include "models/checkpoint/gguf.hpp"
#include "models/checkpoint/gguf_source.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <span>

namespace {

template <class T>
void check(const paceline::Result<T>& read) {
  if (!read)
    paceline::testing::require(read.error().text().find('\n') == std::string::npos,
                               "an error is one line");
}

} // namespace

void paceline::testing::fuzz(std::string_view input) {
  const std::span file(reinterpret_cast<const std::byte*>(input.data()), input.size());
  const auto read = models::parse_gguf("fuzzed.gguf", file);
  check(read);
  if (!read)
    return;
  for (const auto& tensor : read->tensors)
    require(tensor.bytes.data() >= file.data() &&
                tensor.bytes.data() + tensor.bytes.size() <= file.data() + file.size(),
            "a tensor lies within the file");
  for (const auto& [key, value] : read->metadata)
    require(value.integers().value_or(std::vector<std::int64_t>()).size() +
                    value.strings().value_or(std::vector<std::string_view>()).size() <=
                2 * input.size(),
            "a list has no more elements than the file has bytes");
  static const OneFile own("fuzzed.gguf");
  own.write(input);
  const models::GgufSource source(own.folder() + "/fuzzed.gguf");
  const auto config = source.config();
  check(config);
  if (config)
    check(source.tensors(*config));
  check(source.tokenizer());
  check(source.chat_template("<s>"));
  check(source.generation_defaults());
}
