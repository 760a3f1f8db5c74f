// `--scale` and `--draft-scale`: larger models that compute the same distribution, on disk for as
// long as they are loaded.
#pragma once

#include "apps/interrupt.hpp"
#include "paceline/error.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace paceline::apps {

/// A folder among the system's temporary files; goes with the object, and with a Ctrl-C.
class ScratchFolder {
public:
  explicit ScratchFolder(Interrupt& interrupt);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  /// The enlarged model's folder in this one; see models/synthetic/enlarge.hpp. model, role: as for
  /// models::resolve_model_path. Shows progress.
  Result<std::string> enlarge(const std::string& model, const std::string& role,
                              std::uint64_t parameters);

private:
  std::string path_;
  Interrupt::Scope scope_;
};

/// "350m" or "1.5b" as a number; none: it is not one.
std::optional<std::uint64_t> parse_parameters(const std::string& text);

} // namespace paceline::apps
