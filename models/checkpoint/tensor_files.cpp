#include "models/checkpoint/tensor_files.hpp"

#include "models/checkpoint/widen.hpp"
#include "models/limits.hpp"
#include "text/json.hpp"

#include <boost/json/object.hpp>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <set>
#include <utility>

namespace paceline::models {
namespace json = boost::json;
namespace {

constexpr const char* incomplete_hint =
    "config.json and the weights do not belong together; download the checkpoint again";

} // namespace

Result<TensorFiles> TensorFiles::open(const std::string& folder) {
  TensorFiles checkpoint(folder);
  std::error_code ignored;
  const std::string single = folder + "/model.safetensors";
  const std::string index = single + ".index.json";
  const bool sharded =
      !std::filesystem::exists(single, ignored) && std::filesystem::exists(index, ignored);
  if (auto ok = sharded ? checkpoint.add_shards(index) : checkpoint.add_file(single); !ok)
    return tl::unexpected(ok.error());
  return checkpoint;
}

/// The files that an index names in its "weight_map", and which tensors each of them holds.
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
    if (auto ok = add_file(folder_ + "/" + name); !ok)
      return ok;
  for (const auto& [tensor, file] : map->get_object()) {
    const auto at = tensors_.find(std::string_view(tensor));
    if (at == tensors_.end() || file_of(at->second) != folder_ + "/" + file.get_string().c_str())
      return wrong(fmt::format("tensor {} is not in {}", text::shown(tensor),
                               text::shown(std::string_view(file.get_string()))));
  }
  if (tensors_.size() != map->get_object().size())
    return wrong("the files hold tensors that it does not name");
  return {};
}

std::string TensorFiles::file_of(const Tensor& tensor) const {
  return files_[tensor.file].path();
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
                              text::shown(at->first), text::shown_path(file_of(at->second))),
                  "the files do not belong together; download the checkpoint again");
  }
  return {};
}

gpu::DType TensorFiles::dtype() const {
  const TensorEntry* first = nullptr;
  for (const auto& [name, tensor] : tensors_) {
    if (tensor.entry.shape.size() != 2)
      continue;
    if (first && first->dtype != tensor.entry.dtype)
      return gpu::DType::f32;
    first = &tensor.entry;
  }
  return first ? first->dtype : gpu::DType::f32;
}

Result<const TensorEntry*> TensorFiles::take(std::string_view name,
                                             const std::vector<std::int64_t>& shape) {
  const auto at = tensors_.find(name);
  if (at == tensors_.end())
    return fail(
        ErrorCode::corrupt,
        fmt::format("{}: tensor {} is missing", text::shown_path(folder_), text::shown(name)),
        incomplete_hint);
  Tensor& tensor = at->second;
  if (tensor.entry.shape != shape)
    return fail(ErrorCode::corrupt,
                fmt::format("{}: tensor {} is [{}], where config.json wants [{}]",
                            text::shown_path(file_of(tensor)), text::shown(name),
                            fmt::join(tensor.entry.shape, ", "), fmt::join(shape, ", ")),
                incomplete_hint);
  if (!std::exchange(tensor.taken, true))
    parameters_ += tensor.entry.bytes.size() / gpu::size_of(tensor.entry.dtype);
  return &tensor.entry;
}

const void* TensorFiles::aligned(const TensorEntry& entry) {
  const void* data = entry.bytes.data();
  if (reinterpret_cast<std::uintptr_t>(data) % gpu::size_of(entry.dtype) == 0)
    return data;
  copies_.push_back(std::make_unique<std::byte[]>(entry.bytes.size()));
  std::memcpy(copies_.back().get(), data, entry.bytes.size());
  return copies_.back().get();
}

Result<gpu::HostMatrix> TensorFiles::matrix(std::string_view name, int rows, int cols) {
  const auto entry = take(name, {rows, cols});
  if (!entry)
    return tl::unexpected(entry.error());
  return gpu::HostMatrix{(*entry)->dtype, aligned(**entry), rows, cols};
}

Result<std::vector<float>> TensorFiles::vector(std::string_view name, int size) {
  const auto entry = take(name, {size});
  if (!entry)
    return tl::unexpected(entry.error());
  return widen((*entry)->dtype, aligned(**entry), std::size_t(size));
}

void TensorFiles::release(std::string_view name) {
  if (const auto at = tensors_.find(name); at != tensors_.end())
    release_pages(at->second.entry.bytes);
  copies_.clear();
}

void TensorFiles::ignore(std::string_view name) {
  if (const auto at = tensors_.find(name); at != tensors_.end())
    at->second.taken = true;
}

std::vector<TensorFiles::Stored> TensorFiles::tensors() const {
  std::vector<Stored> out;
  for (const auto& [name, tensor] : tensors_)
    out.push_back({name, tensor.entry.dtype, tensor.entry.bytes.size()});
  return out;
}

Result<void> TensorFiles::check_all_taken() const {
  for (const auto& [name, tensor] : tensors_)
    if (!tensor.taken)
      return fail(ErrorCode::unsupported,
                  fmt::format("{}: unexpected tensor {}", text::shown_path(file_of(tensor)),
                              text::shown(name)),
                  "the architecture in config.json does not know it; results would be wrong");
  return {};
}

} // namespace paceline::models
