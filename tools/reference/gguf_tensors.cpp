// The tensors of a GGUF file as f32, in the order of their names, one behind the other:
//   gguf_tensors FILE
#include "gpu/gguf_blocks.hpp"
#include "models/checkpoint/files.hpp"
#include "models/checkpoint/gguf.hpp"
#include "models/checkpoint/widen.hpp"

#include <cstdio>
#include <vector>

using namespace paceline;

namespace {

std::vector<float> decoded(const models::GgufTensor& tensor) {
  if (const auto* plain = std::get_if<gpu::DType>(&tensor.type))
    return models::widen(*plain, tensor.bytes.data(), std::size_t(tensor.elements()));
  const auto format = std::get<gpu::GgufFormat>(tensor.type);
  std::vector<float> out(std::size_t(tensor.elements()));
  for (std::size_t block = 0; block * gpu::block_bytes(format) < tensor.bytes.size(); ++block)
    gpu::decode_block(format, tensor.bytes.data() + block * gpu::block_bytes(format),
                      out.data() + block * std::size_t(gpu::block_elements(format)));
  return out;
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 2)
    return 2;
  const auto file = models::MappedFile::open(argv[1]);
  const auto read =
      file.and_then([&](const auto& own) { return models::parse_gguf(argv[1], own.bytes()); });
  if (!read) {
    std::fprintf(stderr, "%s\n", read.error().text().c_str());
    return 1;
  }
  for (const models::GgufTensor& tensor : read->tensors) {
    const std::vector<float> values = decoded(tensor);
    std::fwrite(values.data(), sizeof(float), values.size(), stdout);
  }
}
