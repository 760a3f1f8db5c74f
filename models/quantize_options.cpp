#include "models/quantize_options.hpp"

#include <algorithm>

namespace paceline::models {

Result<void> check_progress(const QuantizeOptions& options, std::uint64_t done, std::uint64_t all) {
  if (options.cancelled && options.cancelled())
    return fail(ErrorCode::cancelled, "interrupted", "nothing was written");
  if (options.progress)
    options.progress("Quantizing",
                     std::min(1.0, double(done) / double(std::max<std::uint64_t>(all, 1))));
  return {};
}

} // namespace paceline::models
