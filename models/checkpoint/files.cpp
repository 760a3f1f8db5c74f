#include "models/checkpoint/files.hpp"

#include "text/json.hpp"
#include "text/limits.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <utility>

namespace paceline::models {

using text::shown_path;

namespace {

/// Recognises the text that git leaves in place of a large file if Git LFS did not fetch it.
bool is_lfs_pointer(std::string_view text) {
  return text.starts_with("version https://git-lfs.github.com/spec/");
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

MappedFile::MappedFile(std::string path, int descriptor, std::span<const std::byte> bytes)
    : path_(std::move(path)), descriptor_(descriptor), bytes_(bytes) {}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)),
      bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty())
    ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  if (descriptor_ >= 0)
    ::close(descriptor_);
}

Result<void> MappedFile::read(const std::byte* from, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t count = ::pread(descriptor_, to.data(), to.size(), from - bytes_.data());
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return fail(ErrorCode::unavailable,
                  fmt::format("cannot read {} ({})", shown_path(path_),
                              count < 0 ? std::strerror(errno) : "it has become shorter"),
                  "leave the file as it is while a model is loaded");
    from += count;
    to = to.subspan(std::size_t(count));
  }
  return {};
}

/// Returns whether a byte can be read without the disk; false: nobody knows.
bool MappedFile::is_in_memory(const std::byte* at) const {
  std::byte byte;
  iovec to{&byte, 1};
  return ::preadv2(descriptor_, &to, 1, at - bytes_.data(), RWF_NOWAIT) == 1;
}

void MappedFile::read_ahead(std::span<const std::byte> part) const {
  // What memory has already is looked at page by page before nothing is read, which for a whole
  // model costs more than opening it. Its first, middle and last page tell as much.
  const auto there = [&](std::size_t at) { return is_in_memory(part.data() + at); };
  if (part.empty() || (there(0) && there(part.size() / 2) && there(part.size() - 1)))
    return;
  const auto page = std::uintptr_t(sysconf(_SC_PAGESIZE));
  const std::size_t before = reinterpret_cast<std::uintptr_t>(part.data()) % page;
  madvise(const_cast<std::byte*>(part.data()) - before, part.size() + before, MADV_WILLNEED);
}

Result<MappedFile> MappedFile::open(const std::string& path) {
  const auto cannot = [&](const char* hint) {
    const int why = errno;
    return fail(why == ENOENT ? ErrorCode::not_found : ErrorCode::unavailable,
                fmt::format("cannot read {} ({})", shown_path(path), std::strerror(why)), hint);
  };
  // Non-blocking: opening a pipe must not wait for a writer.
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat status {};
  if (file.number < 0 || ::fstat(file.number, &status) != 0)
    return cannot("check the model's folder and its permissions");
  if (!S_ISREG(status.st_mode))
    return fail(ErrorCode::invalid_argument, shown_path(path) + " is not a file",
                "give a .gguf file, or the folder of a checkpoint");
  const auto size = std::size_t(status.st_size);
  if (size == 0)
    return MappedFile(path, -1, {});
  void* at = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (at == MAP_FAILED)
    return cannot("check the free address space");
  MappedFile mapped(path, std::exchange(file.number, -1),
                    {static_cast<const std::byte*>(at), size});
  if (is_lfs_pointer(mapped.text()))
    return fail(ErrorCode::invalid_argument,
                shown_path(path) + " is a pointer of git-lfs, not the file itself",
                "fetch the files: run git lfs pull in the folder, or hf download");
  return mapped;
}

std::vector<std::filesystem::path> sorted_entries(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  std::error_code failed;
  for (std::filesystem::directory_iterator at(folder, failed), end; !failed && at != end;
       at.increment(failed))
    found.push_back(at->path());
  std::ranges::sort(found);
  return found;
}

void release_pages(std::span<const std::byte> part) {
  const auto page = std::uintptr_t(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(part.data());
  const std::size_t before = (page - address % page) % page; // That page is in use.
  const std::size_t whole = part.size() > before ? (part.size() - before) / page * page : 0;
  if (whole > 0)
    madvise(const_cast<std::byte*>(part.data()) + before, whole, MADV_DONTNEED);
}

Result<boost::json::object> read_json_object(const std::string& path) {
  return MappedFile::open(path).and_then([&](const MappedFile& file) {
    const std::string where = shown_path(path);
    const auto strict = text::parse_json_object(where, file.text());
    return strict || file.text().size() > text::limits::json_file_bytes_max
               ? strict
               : text::parse_json_object(where, text::with_tagged_numbers(file.text()));
  });
}

} // namespace paceline::models
