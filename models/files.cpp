#include "models/files.hpp"

#include "models/limits.hpp"

#include <boost/json/parse.hpp>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace paceline::models {
namespace json = boost::json;
namespace {

constexpr const char* damaged_hint = "the file is damaged or no checkpoint's; download it again";

/// What stands in for a large file where only git has been there.
bool is_lfs_pointer(std::span<const std::byte> bytes) {
  constexpr std::string_view start = "version https://git-lfs.github.com/spec/";
  return bytes.size() >= start.size() && std::memcmp(bytes.data(), start.data(), start.size()) == 0;
}

/// Closes a descriptor at the end of a scope.
struct Descriptor {
  int number = -1;
  ~Descriptor() {
    if (number >= 0)
      ::close(number);
  }
};

} // namespace

std::string shown(std::string_view name, std::size_t longest) {
  std::string out;
  for (const char c : name.substr(0, longest)) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return name.size() > longest ? out + "..." : out;
}

MappedFile::MappedFile(std::string path, std::span<const std::byte> bytes)
    : path_(std::move(path)), bytes_(bytes) {}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty())
    ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

Result<MappedFile> MappedFile::open(const std::string& path) {
  const auto cannot = [&](const char* hint) {
    const int why = errno;
    return fail(why == ENOENT ? ErrorCode::not_found : ErrorCode::unavailable,
                fmt::format("cannot read {} ({})", shown_path(path), std::strerror(why)), hint);
  };
  // Non-blocking: opening a pipe must not wait for a writer.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat status {};
  if (file.number < 0 || ::fstat(file.number, &status) != 0)
    return cannot("check the model's folder and its permissions");
  if (!S_ISREG(status.st_mode))
    return fail(ErrorCode::invalid_argument, shown_path(path) + " is not a file",
                "give the folder of a checkpoint");
  const auto size = std::size_t(status.st_size);
  if (size == 0)
    return MappedFile(path, {});
  void* at = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (at == MAP_FAILED)
    return cannot("check the free address space");
  MappedFile mapped(path, {static_cast<const std::byte*>(at), size});
  if (is_lfs_pointer(mapped.bytes()))
    return fail(ErrorCode::invalid_argument,
                shown_path(path) + " is a pointer of git-lfs, not the file itself",
                "fetch the files: run git lfs pull in the folder, or hf download");
  return mapped;
}

void read_ahead(std::span<const std::byte> part) {
  const auto page = std::uintptr_t(sysconf(_SC_PAGESIZE));
  const std::size_t before = reinterpret_cast<std::uintptr_t>(part.data()) % page;
  madvise(const_cast<std::byte*>(part.data()) - before, part.size() + before, MADV_WILLNEED);
}

void release_pages(std::span<const std::byte> part) {
  const auto page = std::uintptr_t(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(part.data());
  const std::size_t before = (page - address % page) % page; // What of a page others use stays.
  const std::size_t whole = part.size() > before ? (part.size() - before) / page * page : 0;
  if (whole > 0)
    madvise(const_cast<std::byte*>(part.data()) + before, whole, MADV_DONTNEED);
}

Result<json::object> read_json_object(const std::string& path) {
  auto file = MappedFile::open(path);
  if (!file)
    return tl::unexpected(file.error());
  const auto bytes = file->bytes();
  if (bytes.size() > limits::json_file_bytes_max)
    return fail(ErrorCode::corrupt,
                fmt::format("{} has {} bytes, more than {}", shown_path(path), bytes.size(),
                            limits::json_file_bytes_max),
                damaged_hint);
  json::parse_options options;
  options.max_depth = limits::json_depth_max;
  json::error_code failed;
  json::value value =
      json::parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, failed, {}, options);
  if (failed)
    return fail(ErrorCode::corrupt,
                fmt::format("{} is not JSON ({})", shown_path(path), failed.message()),
                damaged_hint);
  if (!value.is_object())
    return fail(ErrorCode::corrupt, shown_path(path) + " holds no JSON object", damaged_hint);
  return std::move(value.get_object());
}

const json::value* JsonFields::unread(std::string_view key) {
  return asked_.contains(key) ? nullptr : find(key);
}

const json::value* JsonFields::find(std::string_view key) {
  asked_.emplace(key);
  const json::value* value = object_->if_contains(key);
  return value && !value->is_null() ? value : nullptr;
}

void JsonFields::wrong(ErrorCode code, std::string what, std::string hint) {
  if (!error_)
    error_ = Error{code, where_ + ": " + std::move(what), std::move(hint)};
}

std::int64_t JsonFields::integer(std::string_view key, std::int64_t low, std::int64_t high,
                                 std::optional<std::int64_t> fallback) {
  const json::value* value = find(key);
  if (!value && fallback)
    return *fallback;
  // A value such as 10000.0 where an integer belongs is what some exporters write.
  json::error_code inexact;
  const auto number =
      value && value->is_number() ? value->to_number<std::int64_t>(inexact) : std::int64_t(0);
  if (!value)
    wrong(ErrorCode::corrupt, fmt::format("{} is missing", key), damaged_hint);
  else if (!value->is_number() || inexact || number < low || number > high)
    wrong(ErrorCode::corrupt, fmt::format("{} is not an integer from {} to {}", key, low, high),
          damaged_hint);
  else
    return number;
  return low;
}

double JsonFields::number(std::string_view key, double low, double high,
                          std::optional<double> fallback) {
  const json::value* value = find(key);
  if (!value && fallback)
    return *fallback;
  if (!value)
    wrong(ErrorCode::corrupt, fmt::format("{} is missing", key), damaged_hint);
  else if (json::error_code failed; value->is_number()) {
    const double number = value->to_number<double>(failed);
    if (!failed && number >= low && number <= high)
      return number;
  }
  wrong(ErrorCode::corrupt, fmt::format("{} is not a number from {} to {}", key, low, high),
        damaged_hint);
  return low;
}

bool JsonFields::boolean(std::string_view key, bool fallback) {
  const json::value* value = find(key);
  if (value && !value->is_bool())
    wrong(ErrorCode::corrupt, fmt::format("{} is neither true nor false", key), damaged_hint);
  return value && value->is_bool() ? value->get_bool() : fallback;
}

std::string JsonFields::string(std::string_view key, std::string_view fallback) {
  const json::value* value = find(key);
  if (value && !value->is_string())
    wrong(ErrorCode::corrupt, fmt::format("{} is not a string", key), damaged_hint);
  return value && value->is_string() ? std::string(value->get_string()) : std::string(fallback);
}

} // namespace paceline::models
