#include "apps/console/input.hpp"

#include "actors/limits.hpp"
#include "apps/console/terminal.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace paceline::apps {
namespace {

constexpr std::size_t text_bytes_max = actors::limits::prompt_bytes_max;

tl::unexpected<Error> unreadable(const std::string& name, int error_number) {
  const auto code = error_number == ENOENT ? ErrorCode::not_found : ErrorCode::invalid_argument;
  return fail(code, fmt::format("cannot read {} ({})", name, std::strerror(error_number)),
              "name a file that can be read, or - for standard input");
}

Result<std::string> read_to_end(int file, const std::string& name, std::size_t bytes_max) {
  std::string text;
  std::array<char, 64 * 1024> chunk{};
  for (;;) {
    const ssize_t count = ::read(file, chunk.data(), chunk.size());
    if (count == 0)
      return text;
    if (count < 0 && errno != EINTR)
      return unreadable(name, errno);
    if (count > 0)
      text.append(chunk.data(), std::size_t(count));
    if (text.size() > bytes_max)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{} is longer than {} MiB", name, bytes_max >> 20),
                  "give a shorter text");
  }
}

Result<std::string> read_standard_input() {
  if (input_is_terminal())
    note("Reading the text from the terminal; Ctrl-D ends it.\n");
  return read_to_end(STDIN_FILENO, "standard input", text_bytes_max);
}

} // namespace

Result<std::string> read_text_file(const std::string& path, std::size_t bytes_max) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return unreadable(path, errno);
  auto text = read_to_end(file, path, bytes_max);
  ::close(file);
  return text;
}

Result<std::string> read_text(const PromptSource& source) {
  if (source.file && *source.file != "-")
    return read_text_file(*source.file, text_bytes_max);
  if (source.text && *source.text != "-")
    return *source.text;
  return read_standard_input();
}

} // namespace paceline::apps
