#include "apps/bench/scale.hpp"

#include "apps/command.hpp"
#include "apps/terminal.hpp"
#include "models/sources.hpp"
#include "models/synthetic/enlarge.hpp"

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <unistd.h>

namespace paceline::apps {
namespace {
namespace fs = std::filesystem;

/// Empty where none can be made.
std::string make_folder() {
  std::error_code failed;
  std::string pattern = (fs::temp_directory_path(failed) / "paceline-bench-XXXXXX").string();
  return !failed && mkdtemp(pattern.data()) ? pattern : std::string();
}

void remove_folder(const std::string& path) {
  std::error_code ignored;
  if (!path.empty())
    fs::remove_all(path, ignored);
}

} // namespace

ScratchFolder::ScratchFolder(Interrupt& interrupt)
    : path_(make_folder()), scope_(interrupt.on_first([path = path_] {
        remove_folder(path);
        _exit(status_interrupted);
      })) {}

ScratchFolder::~ScratchFolder() {
  remove_folder(path_);
}

Result<std::string> ScratchFolder::enlarge(const std::string& model, const std::string& role,
                                           std::uint64_t parameters) {
  auto source = models::resolve_model_path(model, role);
  if (!source)
    return source;
  const std::string target = path_ + "/" + role;
  std::error_code failed;
  if (path_.empty() || !fs::create_directory(target, failed))
    return fail(ErrorCode::unavailable, "cannot make a temporary folder",
                "set TMPDIR to a folder that can be written");
  ProgressLine line;
  const auto show = [&line](const std::string& what, double done) { line.show(what, done); };
  const auto written = models::enlarge_checkpoint(*source, target, parameters, show);
  if (!written)
    return tl::unexpected(written.error());
  return target;
}

std::optional<std::uint64_t> parse_parameters(const std::string& text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [unit, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || unit + 1 != end || !(number > 0 && number < 1e6))
    return std::nullopt;
  switch (*unit) {
  case 'm':
  case 'M': return std::uint64_t(number * 1e6);
  case 'b':
  case 'B': return std::uint64_t(number * 1e9);
  default: return std::nullopt;
  }
}

} // namespace paceline::apps
