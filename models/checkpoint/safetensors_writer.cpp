#include "models/checkpoint/safetensors_writer.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

namespace paceline::models {
namespace json = boost::json;

std::size_t TensorPlan::bytes() const {
  std::size_t bytes = size_of(type);
  for (const std::int64_t n : shape)
    bytes *= std::size_t(n);
  return bytes;
}

Result<SafetensorsWriter> SafetensorsWriter::create(const std::string& path,
                                                    std::vector<TensorPlan> tensors) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const TensorPlan& a, const TensorPlan& b) {
    return size_of(a.type) > size_of(b.type);
  });
  auto file = NewFile::create(path);
  if (!file)
    return tl::unexpected(file.error());
  SafetensorsWriter writer(std::move(*file));
  if (auto begun = writer.begin(tensors); !begun)
    return tl::unexpected(begun.error());
  return writer;
}

Result<void> SafetensorsWriter::begin(const std::vector<TensorPlan>& tensors) {
  json::object header{{"__metadata__", {{"format", "pt"}}}};
  std::size_t end = 0;
  for (const TensorPlan& tensor : tensors) {
    const std::size_t first = std::exchange(end, end + tensor.bytes());
    header[tensor.name] = {{"dtype", to_string(tensor.type)},
                           {"shape", json::array(tensor.shape.begin(), tensor.shape.end())},
                           {"data_offsets", {first, end}}};
    places_[tensor.name] = first;
  }
  std::string text = json::serialize(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string size;
  for (int i = 0; i < 8; ++i)
    size += char(text.size() >> (8 * i) & 0xFF);
  const std::string head = size + text;
  for (auto& [name, place] : places_)
    place += head.size();
  return file_.reserve(head.size() + end).and_then([&] {
    return file_.write(0, std::as_bytes(std::span(head)));
  });
}

} // namespace paceline::models
