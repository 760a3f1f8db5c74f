// The times at which requests arrive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline::apps::load {

/// Draws gaps between arrivals, in seconds: independent draws from the Gamma distribution of mean 1
/// / rate and coefficient of variation 1 / sqrt(burstiness). 1 is a Poisson process; less comes in
/// bursts, more is more even. rate, burstiness: above 0, finite.
std::vector<double> draw_gaps(std::size_t count, double rate, double burstiness,
                              std::uint64_t seed);

/// Returns the seconds from the start at which requests arrive with such gaps, stretched to `rate`.
/// rate: may be infinite.
std::vector<double> draw_arrivals(std::size_t count, double rate, double burstiness,
                                  std::uint64_t seed);

/// Makes the last one come after count / rate seconds, so that `rate` is offered whatever the gaps
/// (vLLM's benchmark does the same). If the rate is infinite, all come at once.
void stretch(std::vector<double>& arrivals, double rate);

} // namespace paceline::apps::load
