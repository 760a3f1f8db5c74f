#include "models/checkpoint/gguf_files.hpp"

#include "base/parse_number.hpp"
#include "models/limits.hpp"
#include "text/json.hpp"

#include <filesystem>
#include <fmt/format.h>
#include <fstream>

namespace paceline::models {
namespace {

constexpr const char* parts_hint =
    "the parts do not belong together, or are not all there; download the model again";
constexpr std::string_view ending = ".gguf";
constexpr std::string_view between = "-of-";
constexpr std::size_t digits = 5;

std::string part_path(const GgufPart& part, int number) {
  return fmt::format("{}-{:05}{}{:05}{}", part.stem, number, between, part.of, ending);
}

} // namespace

bool is_gguf(const std::string& path) {
  if (path.ends_with(ending))
    return true;
  std::error_code ignored;
  char first[gguf_magic.size()] = {};
  return std::filesystem::is_regular_file(path, ignored) &&
         std::ifstream(path, std::ios::binary).read(first, sizeof first) &&
         std::string_view(first, sizeof first) == gguf_magic;
}

std::optional<GgufPart> gguf_part(std::string_view path) {
  constexpr std::size_t tail = 1 + digits + between.size() + digits;
  if (!path.ends_with(ending) || path.size() <= tail + ending.size())
    return {};
  path.remove_suffix(ending.size());
  const std::string_view last = path.substr(path.size() - tail);
  const auto number = base::parse_number<int>(last.substr(1, digits));
  const auto of = base::parse_number<int>(last.substr(tail - digits));
  if (last[0] != '-' || last.substr(1 + digits, between.size()) != between || !number || !of ||
      *number < 1 || *number > *of)
    return {};
  return GgufPart{std::string(path.substr(0, path.size() - tail)), *number, *of};
}

std::vector<std::filesystem::path> gguf_models(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found = sorted_entries(folder);
  std::erase_if(found, [](const std::filesystem::path& path) {
    const auto part = gguf_part(path.string());
    return path.extension() != ending || path.filename().string().starts_with("mmproj") ||
           (part && part->number > 1);
  });
  return found;
}

Result<std::shared_ptr<const GgufFiles>> GgufFiles::open(const std::string& path) {
  auto files = std::make_shared<GgufFiles>();
  if (auto first = files->add(path, 0, 0); !first)
    return tl::unexpected(first.error());
  const auto count = files->integer("split.count");
  if (!count)
    return tl::unexpected(count.error());
  const std::int64_t parts = count->value_or(1);
  const auto part = gguf_part(path);
  if (parts <= 1)
    return files;
  if (parts > std::int64_t(limits::shards_max))
    return files->wrong(
        fmt::format("the model is split into {} files, more than {}", parts, limits::shards_max));
  if (!part || part->of != parts)
    return files->wrong(fmt::format("this is one of {} files, which its name does not say", parts),
                        {}, ErrorCode::corrupt,
                        "give the first of them its own name back: NAME-00001-of-0000N.gguf");
  if (part->number != 1)
    return files->wrong(fmt::format("this is part {} of {}", part->number, parts), {},
                        ErrorCode::invalid_argument, "give " + part_path(*part, 1));
  for (int number = 2; number <= part->of; ++number)
    if (auto added =
            files->add(part_path(*part, number), std::size_t(number) - 1, std::size_t(parts));
        !added)
      return tl::unexpected(added.error());
  const auto tensors = files->integer("split.tensors.count");
  if (tensors && *tensors && std::uint64_t(**tensors) != files->tensors_.size())
    return files->wrong(fmt::format("the parts should have {} tensors, and they have {}", **tensors,
                                    files->tensors_.size()),
                        {}, ErrorCode::corrupt, parts_hint);
  return files;
}

/// Adds part `number`, counted from 0, of `of` parts; 0: the number of parts is not known yet.
Result<void> GgufFiles::add(const std::string& path, std::size_t number, std::size_t of) {
  auto file = MappedFile::open(path);
  if (!file)
    return tl::unexpected(file.error());
  auto read = parse_gguf(path, file->bytes());
  if (!read)
    return tl::unexpected(read.error());
  files_.push_back(std::move(*file));
  const auto says = [&](const char* key) {
    const auto at = read->metadata.find(key);
    return at == read->metadata.end() ? std::nullopt : at->second.integer();
  };
  if (of > 0 &&
      (says("split.no") != std::int64_t(number) || says("split.count") != std::int64_t(of)))
    return fail(ErrorCode::corrupt,
                fmt::format("{}: the file does not say that it is part {} of {}",
                            text::shown_path(path), number + 1, of),
                parts_hint);
  if (number == 0)
    metadata_ = std::move(read->metadata);
  for (GgufTensor& tensor : read->tensors) {
    std::string name = tensor.name;
    if (!tensors_.try_emplace(name, Tensor{std::move(tensor), number}).second)
      return fail(ErrorCode::corrupt,
                  fmt::format("{}: tensor {} stands in another part as well",
                              text::shown_path(path), text::shown(name)),
                  parts_hint);
  }
  return {};
}

std::vector<std::string> GgufFiles::paths() const {
  std::vector<std::string> out;
  for (const MappedFile& file : files_)
    out.push_back(file.path());
  return out;
}

const GgufValue* GgufFiles::find(std::string_view key) const {
  const auto at = metadata_.find(key);
  return at == metadata_.end() ? nullptr : &at->second;
}

const MappedFile& GgufFiles::file_of(std::string_view tensor) const {
  return files_[tensors_.find(tensor)->second.file];
}

const GgufTensor* GgufFiles::tensor(std::string_view name) const {
  const auto at = tensors_.find(name);
  return at == tensors_.end() ? nullptr : &at->second.stored;
}

template <class T, class F>
Result<std::optional<T>> GgufFiles::value(std::string_view key, const char* kind,
                                          const F& get) const {
  const GgufValue* found = find(key);
  if (!found)
    return std::optional<T>();
  if (const auto out = get(*found))
    return std::optional<T>(T(*out));
  return wrong(fmt::format("{} is not {}", text::shown(key), kind));
}

Result<std::optional<std::int64_t>> GgufFiles::integer(std::string_view key) const {
  return value<std::int64_t>(key, "an integer", [](const auto& v) { return v.integer(); });
}
Result<std::optional<double>> GgufFiles::number(std::string_view key) const {
  return value<double>(key, "a number", [](const auto& v) { return v.number(); });
}
Result<std::optional<bool>> GgufFiles::boolean(std::string_view key) const {
  return value<bool>(key, "true or false", [](const auto& v) { return v.boolean(); });
}
Result<std::optional<std::string>> GgufFiles::string(std::string_view key) const {
  return value<std::string>(key, "a text", [](const auto& v) { return v.string(); });
}

tl::unexpected<Error> GgufFiles::wrong(std::string_view what, std::string_view tensor,
                                       ErrorCode code, std::string_view hint) const {
  const auto at = tensors_.find(tensor);
  const std::string& file = files_[at == tensors_.end() ? 0 : at->second.file].path();
  const std::string of = tensor.empty() ? "" : fmt::format("tensor {} ", text::shown(tensor));
  return fail(code, fmt::format("{}: {}{}", text::shown_path(file), of, what),
              hint.empty() ? "the file is damaged; download it again" : std::string(hint));
}

} // namespace paceline::models
