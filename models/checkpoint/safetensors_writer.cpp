#include "models/checkpoint/safetensors_writer.hpp"

#include "text/json.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
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
  SafetensorsWriter writer(path,
                           ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (writer.file_ < 0)
    return writer.cannot(errno);
  if (auto begun = writer.begin(tensors); !begun)
    return tl::unexpected(begun.error());
  return writer;
}

SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&& other) noexcept
    : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)),
      places_(std::move(other.places_)) {}

SafetensorsWriter::~SafetensorsWriter() {
  if (file_ >= 0)
    ::close(file_);
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
  if (const int failed = posix_fallocate(file_, 0, off_t(head.size() + end)); failed != 0)
    return cannot(failed);
  return put(0, std::as_bytes(std::span(head)));
}

Result<void> SafetensorsWriter::write(const std::string& name, std::size_t first,
                                      std::span<const std::byte> bytes) {
  return put(places_.at(name) + first, bytes);
}

Result<void> SafetensorsWriter::put(std::size_t at, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file_, bytes.data(), bytes.size(), off_t(at));
    if (written < 0 && errno != EINTR)
      return cannot(errno);
    const auto done = std::size_t(std::max<ssize_t>(written, 0));
    bytes = bytes.subspan(done);
    at += done;
  }
  return {};
}

Result<void> SafetensorsWriter::close() {
  if (::close(std::exchange(file_, -1)) != 0)
    return cannot(errno);
  return {};
}

tl::unexpected<Error> SafetensorsWriter::cannot(int error_number) const {
  return fail(
      ErrorCode::unavailable,
      fmt::format("cannot write {} ({})", text::shown_path(path_), std::strerror(error_number)),
      "check its folder, its permissions and the free space");
}

} // namespace paceline::models
