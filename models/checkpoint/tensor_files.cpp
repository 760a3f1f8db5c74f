#include "models/checkpoint/tensor_files.hpp"

#include "gpu/mx.hpp"
#include "models/checkpoint/lacking.hpp"
#include "models/checkpoint/widen.hpp"
#include "models/limits.hpp"
#include "text/json.hpp"

#include <algorithm>
#include <boost/json/object.hpp>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <optional>
#include <set>
#include <utility>

namespace paceline::models {
namespace json = boost::json;
namespace {

constexpr const char* incomplete_hint =
    "config.json and the weights do not belong together; download the checkpoint again";

} // namespace

bool is_scale(std::string_view name) {
  return name.ends_with("_scale") || name.ends_with("_scale_inv") || name.ends_with("_scales");
}

Result<TensorFiles> TensorFiles::open(const std::string& folder) {
  TensorFiles checkpoint(folder);
  std::error_code ignored;
  const std::string single = folder + "/model.safetensors";
  const std::string index = single + ".index.json";
  const bool sharded =
      !std::filesystem::exists(single, ignored) && std::filesystem::exists(index, ignored);
  if (!sharded)
    if (auto own = check_not_foreign(folder, "model.safetensors"); !own)
      return tl::unexpected(own.error());
  if (auto ok = sharded ? checkpoint.add_shards(index) : checkpoint.add_file(single); !ok)
    return tl::unexpected(ok.error());
  return checkpoint;
}

/// Adds the files that an index names in its "weight_map", with the tensors that each of them
/// holds.
Result<void> TensorFiles::add_shards(const std::string& index) {
  const auto wrong = [&](std::string what) {
    return fail(ErrorCode::corrupt, text::shown_path(index) + ": " + std::move(what),
                "index and files do not belong together; download the checkpoint again");
  };
  const auto object = read_json_object(index);
  if (!object)
    return tl::unexpected(object.error());
  const json::value* map = object->if_contains("weight_map");
  if (!map || !map->is_object() || map->get_object().empty())
    return wrong("weight_map is not an object with tensors");
  std::set<std::string, std::less<>> names;
  for (const auto& [tensor, file] : map->get_object()) {
    const std::string_view name = file.is_string() ? std::string_view(file.get_string()) : "";
    if (!name.ends_with(".safetensors") || name.find('/') != name.npos)
      return wrong("tensor " + text::shown(tensor) +
                   " is not in a .safetensors file of this folder");
    names.emplace(name);
    if (names.size() > limits::shards_max)
      return wrong(fmt::format("names more than {} files", limits::shards_max));
  }
  for (const std::string& name : names)
    if (auto ok = check_downloaded(folder_, name).and_then([&] {
          return add_file(folder_ + "/" + name);
        });
        !ok)
      return ok;
  for (const auto& [tensor, file] : map->get_object()) {
    const auto at = tensors_.find(std::string_view(tensor));
    if (at == tensors_.end() ||
        file_of(at->first).path() != folder_ + "/" + file.get_string().c_str())
      return wrong(fmt::format("tensor {} is not in {}", text::shown(tensor),
                               text::shown(std::string_view(file.get_string()))));
  }
  if (tensors_.size() != map->get_object().size())
    return wrong("the files hold tensors that it does not name");
  return {};
}

const MappedFile& TensorFiles::file_of(std::string_view name) const {
  return files_[tensors_.find(name)->second.file];
}

Result<void> TensorFiles::add_file(const std::string& path) {
  auto file = MappedFile::open(path);
  if (!file)
    return tl::unexpected(file.error());
  auto entries = parse_safetensors(path, file->bytes());
  if (!entries)
    return tl::unexpected(entries.error());
  files_.push_back(std::move(*file));
  for (TensorEntry& entry : *entries) {
    std::string name = entry.name;
    const auto [at, fresh] =
        tensors_.try_emplace(std::move(name), Tensor{std::move(entry), files_.size() - 1});
    if (!fresh)
      return fail(ErrorCode::corrupt,
                  fmt::format("{}: tensor {} stands in {} as well", text::shown_path(path),
                              text::shown(at->first), text::shown_path(file_of(at->first).path())),
                  "the files do not belong together; download the checkpoint again");
  }
  return {};
}

/// Returns the matrices' type. Scales of quantized weights do not count as matrices.
gpu::DType TensorFiles::dtype() const {
  std::optional<gpu::DType> first;
  for (const auto& [name, tensor] : tensors_) {
    const auto own = dtype_of(tensor.entry.type);
    const std::size_t rank = tensor.entry.shape.size(); // 3: a matrix of each expert.
    if (!own || rank < 2 || rank > 3 || is_scale(name))
      continue;
    if (first.value_or(*own) != *own)
      return gpu::DType::f32;
    first = own;
  }
  return first.value_or(gpu::DType::f32);
}

const TensorEntry* TensorFiles::find(std::string_view name) const {
  const auto at = tensors_.find(name);
  return at == tensors_.end() ? nullptr : &at->second.entry;
}

tl::unexpected<Error> TensorFiles::wrong(std::string_view name, std::string_view what) const {
  const auto at = tensors_.find(name);
  return fail(ErrorCode::corrupt,
              fmt::format("{}: tensor {} {}",
                          text::shown_path(at == tensors_.end() ? folder_ : file_of(name).path()),
                          text::shown(name), what),
              incomplete_hint);
}

Result<const TensorEntry*> TensorFiles::take(std::string_view name,
                                             const std::vector<std::int64_t>& shape,
                                             std::uint64_t parameters) {
  const auto at = tensors_.find(name);
  if (at == tensors_.end())
    return wrong(name, "is missing");
  Tensor& tensor = at->second;
  if (tensor.entry.shape != shape)
    return wrong(name, fmt::format("is [{}], where config.json wants [{}]",
                                   fmt::join(tensor.entry.shape, ", "), fmt::join(shape, ", ")));
  if (!std::exchange(tensor.taken, true))
    parameters_ += parameters;
  return &tensor.entry;
}

Result<gpu::DType> TensorFiles::number_format(const TensorEntry& entry) const {
  if (const auto dtype = dtype_of(entry.type))
    return *dtype;
  return wrong(entry.name, fmt::format("is of {}, where config.json says nothing of quantized "
                                       "weights",
                                       to_string(entry.type)));
}

const void* TensorFiles::aligned(StoredType type, std::span<const std::byte> bytes) {
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % size_of(type) == 0)
    return bytes.data();
  copies_.push_back(std::make_unique<std::byte[]>(bytes.size()));
  std::memcpy(copies_.back().get(), bytes.data(), bytes.size());
  return copies_.back().get();
}

Result<gpu::HostMatrix> TensorFiles::matrix(std::string_view name, int rows, int cols) {
  return matrix_in(name, {rows, cols}, 0, rows);
}

Result<gpu::HostMatrix> TensorFiles::matrix_in(std::string_view name,
                                               const std::vector<std::int64_t>& shape,
                                               std::int64_t first, int rows) {
  if (const TensorEntry* stored = find(name)) // Codes differ in shape, too: this says why.
    if (const auto dtype = number_format(*stored); !dtype)
      return tl::unexpected(dtype.error());
  std::uint64_t elements = 1;
  for (const std::int64_t size : shape)
    elements *= std::uint64_t(size);
  return take(name, shape, elements).map([&](const TensorEntry* entry) {
    const std::size_t row = std::size_t(shape.back()) * size_of(entry->type);
    const auto bytes = entry->bytes.subspan(std::size_t(first) * row, std::size_t(rows) * row);
    gpu::HostMatrix out{*dtype_of(entry->type), aligned(entry->type, bytes), rows,
                        int(shape.back())};
    out.file = out.data == bytes.data() ? &file_of(name) : nullptr;
    return out;
  });
}

Result<std::vector<float>> TensorFiles::vector(std::string_view name, int size) {
  return take(name, {size}, std::uint64_t(size)).and_then([&](const TensorEntry* entry) {
    return numbers(*entry);
  });
}

Result<std::vector<float>> TensorFiles::kernel(std::string_view name, int channels, int taps) {
  return take(name, {channels, 1, taps}, std::uint64_t(channels) * std::uint64_t(taps))
      .and_then([&](const TensorEntry* entry) { return numbers(*entry); });
}

Result<std::vector<float>> TensorFiles::numbers(const TensorEntry& entry) {
  const std::size_t count = entry.bytes.size() / size_of(entry.type);
  if (entry.type == StoredType::f8_e8m0) {
    std::vector<float> out(count);
    std::transform(entry.bytes.begin(), entry.bytes.end(), out.begin(),
                   [](std::byte scale) { return gpu::decode_scale(std::uint8_t(scale)); });
    return out;
  }
  return number_format(entry).map(
      [&](gpu::DType dtype) { return widen(dtype, aligned(entry.type, entry.bytes), count); });
}

void TensorFiles::read_ahead(std::string_view prefix) const {
  for (auto at = tensors_.lower_bound(prefix);
       at != tensors_.end() && at->first.starts_with(prefix); ++at)
    files_[at->second.file].read_ahead(at->second.entry.bytes);
}

void TensorFiles::release(std::string_view name) {
  if (const auto at = tensors_.find(name); at != tensors_.end())
    release_pages(at->second.entry.bytes);
  copies_.clear();
}

bool TensorFiles::same(std::string_view a, std::string_view b) const {
  const auto first = tensors_.find(a);
  const auto second = tensors_.find(b);
  if (first == tensors_.end() || second == tensors_.end())
    return false;
  const TensorEntry& x = first->second.entry;
  const TensorEntry& y = second->second.entry;
  return x.type == y.type && x.shape == y.shape &&
         std::memcmp(x.bytes.data(), y.bytes.data(), x.bytes.size()) == 0;
}

void TensorFiles::ignore(std::string_view name) {
  if (const auto at = tensors_.find(name); at != tensors_.end())
    at->second.taken = true;
}

void TensorFiles::ignore_all(std::string_view prefix) {
  for (auto at = tensors_.lower_bound(prefix);
       at != tensors_.end() && at->first.starts_with(prefix); ++at)
    at->second.taken = true;
}

void TensorFiles::keep_only(const std::function<bool(std::string_view)>& wanted) {
  std::erase_if(tensors_, [&](const auto& named) { return !wanted(named.first); });
}

std::vector<TensorFiles::Stored> TensorFiles::tensors() const {
  std::vector<Stored> out;
  for (const auto& [name, tensor] : tensors_)
    out.push_back({&tensor.entry, tensor.file});
  return out;
}

std::vector<std::string> TensorFiles::files() const {
  std::vector<std::string> out;
  for (const MappedFile& file : files_)
    out.push_back(file.path());
  return out;
}

Result<void> TensorFiles::check_all_taken() const {
  for (const auto& [name, tensor] : tensors_)
    if (!tensor.taken)
      return fail(ErrorCode::unsupported,
                  fmt::format("{}: unexpected tensor {}",
                              text::shown_path(files_[tensor.file].path()), text::shown(name)),
                  "the architecture in config.json does not know it; results would be wrong");
  return {};
}

} // namespace paceline::models
