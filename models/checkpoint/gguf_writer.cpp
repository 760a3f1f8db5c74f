#include "models/checkpoint/gguf_writer.hpp"

#include <algorithm>
#include <type_traits>

namespace paceline::models {
namespace {

using Type = GgufValue::Type;

constexpr std::uint32_t written_version = 3;
constexpr std::size_t written_alignment =
    32; ///< The format's own; general.alignment is not written.

template <class T>
std::string encoded_number(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}
std::string encoded_number(Type type) {
  return encoded_number(std::uint32_t(type));
}

std::string encoded_text(std::string_view value) {
  return encoded_number(std::uint64_t(value.size())).append(value);
}

/// Encodes a list. encode: of one element
template <class T, class F>
std::string encoded_list(Type element, const std::vector<T>& values, const F& encode) {
  std::string out = encoded_number(Type::array) + encoded_number(element) +
                    encoded_number(std::uint64_t(values.size()));
  for (const auto& value : values)
    out += encode(value);
  return out;
}

std::size_t at_alignment(std::size_t at) {
  return (at + written_alignment - 1) / written_alignment * written_alignment;
}

std::uint32_t type_number(GgufType type) {
  if (const auto* format = std::get_if<gpu::GgufFormat>(&type))
    return std::uint32_t(*format);
  switch (std::get<gpu::DType>(type)) {
  case gpu::DType::f32: return 0;
  case gpu::DType::f16: return 1;
  case gpu::DType::bf16: break;
  }
  return 30;
}

/// Returns a tensor's entry in the table. offset: from the beginning of the data
std::string table_entry(const GgufTensorPlan& tensor, std::size_t offset) {
  std::string out = encoded_text(tensor.name) + encoded_number(std::uint32_t(tensor.shape.size()));
  for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size)
    out += encoded_number(std::uint64_t(*size));
  return out + encoded_number(type_number(tensor.type)) + encoded_number(std::uint64_t(offset));
}

} // namespace

void GgufMetadata::set(std::string_view key, std::string bytes) {
  const auto at = std::ranges::find(entries_, key, &std::pair<std::string, std::string>::first);
  if (at == entries_.end())
    entries_.emplace_back(key, std::move(bytes));
  else
    at->second = std::move(bytes);
}

void GgufMetadata::put(std::string_view key, std::uint32_t value) {
  set(key, encoded_number(Type::u32) + encoded_number(value));
}
void GgufMetadata::put(std::string_view key, float value) {
  set(key, encoded_number(Type::f32) + encoded_number(value));
}
void GgufMetadata::put(std::string_view key, bool value) {
  set(key, encoded_number(Type::boolean) + encoded_number(value));
}
void GgufMetadata::put(std::string_view key, std::string_view value) {
  set(key, encoded_number(Type::string) + encoded_text(value));
}
void GgufMetadata::put(std::string_view key, const std::vector<bool>& values) {
  set(key, encoded_list(Type::boolean, values, [](bool value) { return encoded_number(value); }));
}
void GgufMetadata::put(std::string_view key, const std::vector<std::int32_t>& values) {
  set(key,
      encoded_list(Type::i32, values, [](std::int32_t value) { return encoded_number(value); }));
}
void GgufMetadata::put(std::string_view key, const std::vector<float>& values) {
  set(key, encoded_list(Type::f32, values, [](float value) { return encoded_number(value); }));
}
void GgufMetadata::put(std::string_view key, const std::vector<std::string>& values) {
  set(key, encoded_list(Type::string, values,
                        [](const std::string& value) { return encoded_text(value); }));
}
void GgufMetadata::put(std::string_view key, const GgufValue& value) {
  set(key, encoded_number(value.type()) + value.encoded());
}

std::string GgufMetadata::bytes() const {
  std::string out;
  for (const auto& [key, value] : entries_)
    out.append(encoded_text(key)).append(value);
  return out;
}

std::size_t GgufTensorPlan::bytes() const {
  std::size_t elements = 1;
  for (const std::int64_t size : shape)
    elements *= std::size_t(size);
  if (const auto* format = std::get_if<gpu::GgufFormat>(&type))
    return elements / std::size_t(gpu::block_elements(*format)) * gpu::block_bytes(*format);
  return elements * gpu::size_of(std::get<gpu::DType>(type));
}

Result<GgufFileWriter> GgufFileWriter::create(const std::string& path, const GgufMetadata& metadata,
                                              const std::vector<GgufTensorPlan>& tensors) {
  auto file = NewFile::create(path);
  if (!file)
    return tl::unexpected(file.error());
  GgufFileWriter out(std::move(*file));
  std::string head = std::string(gguf_magic) + encoded_number(written_version) +
                     encoded_number(std::uint64_t(tensors.size())) +
                     encoded_number(metadata.keys()) + metadata.bytes();
  std::size_t end = 0;
  for (const GgufTensorPlan& tensor : tensors) {
    const std::size_t first = at_alignment(end);
    head += table_entry(tensor, first);
    out.places_[tensor.name] = first;
    end = first + tensor.bytes();
  }
  head.resize(at_alignment(head.size()));
  for (auto& [name, place] : out.places_)
    place += head.size();
  return out.file_.reserve(head.size() + at_alignment(end))
      .and_then([&] { return out.file_.write(0, std::as_bytes(std::span(head))); })
      .map([&] { return std::move(out); });
}

} // namespace paceline::models
