#include "gpu/cuda/kernels.hpp"
#include "tests/gpu/cuda/figures/bench.hpp"

#include <cstdint>
#include <fmt/format.h>

namespace paceline::gpu::cuda::figures {

void measure_sampling(const Bench& bench) {
  fmt::print("sampling: us of a proposal of 1 row, and of a window of 5 rows judged\n");
  struct Setting {
    const char* name;
    float temperature, top_p;
    int top_k;
    bool coupled;
  };
  constexpr Setting settings[] = {{"greedy", 0, 1, 0, false},
                                  {"temperature 0.8", 0.8f, 1, 0, false},
                                  {"top-p 0.95", 0.8f, 0.95f, 0, false},
                                  {"top-k 40", 0.8f, 1, 40, false},
                                  {"coupled", 0.8f, 1, 0, true}};
  for (const int vocabulary : bench.tiny ? std::vector{300} : std::vector{128256, 151936})
    for (const bool peaked : {true, false}) {
      constexpr int judged = 5;
      std::vector<float> logits(std::size_t(judged) * std::size_t(vocabulary));
      std::mt19937 random(3);
      std::normal_distribution<float> normal(0, peaked ? 2.5f : 0.5f);
      for (float& logit : logits)
        logit = normal(random);
      for (int row = 0; peaked && row < judged; ++row)
        logits[std::size_t(row) * std::size_t(vocabulary) + 7] = 18;
      const auto from = bench.upload(logits);
      const auto probabilities = bench.allocate(logits.size() * sizeof(float));
      const auto q = bench.upload(std::vector<float>(std::size_t(judged) * std::size_t(vocabulary),
                                                     1.0f / float(vocabulary)));
      const auto results = bench.allocate(judged * sizeof(kernels::VerifyResult) +
                                          judged * sizeof(kernels::ProposeResult));
      for (const Setting& setting : settings) {
        std::vector<kernels::ProposeRow> proposals(1);
        std::vector<kernels::VerifyRow> rows(judged);
        for (int i = 0; i < judged; ++i) {
          const auto offset = std::size_t(i) * std::size_t(vocabulary);
          kernels::WarpRow row;
          row.logits = reinterpret_cast<const float*>(from->data()) + offset;
          row.vocabulary = vocabulary;
          row.warping.temperature = setting.temperature;
          row.warping.top_p = setting.top_p;
          row.warping.top_k = setting.top_k;
          row.probabilities = reinterpret_cast<float*>(probabilities->data()) + offset;
          auto& verify = rows[std::size_t(i)];
          verify.row = row;
          verify.rule = setting.coupled ? kernels::Rule::coupled : kernels::Rule::rejection;
          verify.noise = {std::uint64_t(i + 1), 0};
          verify.judges = i + 1 < judged;
          verify.token = 7;
          verify.q = setting.coupled ? nullptr : reinterpret_cast<const float*>(q->data()) + offset;
          if (i == 0) {
            proposals[0].row = row;
            proposals[0].rule = verify.rule;
            proposals[0].noise = verify.noise;
          }
        }
        const auto sent_proposals = bench.upload(proposals);
        const auto sent_rows = bench.upload(rows);
        const double proposed = seconds_of(bench, [&](const Queue& queue) {
          PACELINE_CUDA_CHECK(kernels::propose(
              queue, reinterpret_cast<const kernels::ProposeRow*>(sent_proposals->data()), 1,
              reinterpret_cast<kernels::ProposeResult*>(results->data()), vocabulary));
        });
        const double verified = seconds_of(bench, [&](const Queue& queue) {
          PACELINE_CUDA_CHECK(kernels::verify(
              queue, reinterpret_cast<const kernels::VerifyRow*>(sent_rows->data()), judged,
              reinterpret_cast<kernels::VerifyResult*>(results->data()), vocabulary));
        });
        fmt::print("  {:>6} tokens, {:<6} {:<16} {:>7.1f} us {:>7.1f} us\n", vocabulary,
                   peaked ? "peaked" : "flat", setting.name, proposed * 1e6, verified * 1e6);
      }
    }
}

} // namespace paceline::gpu::cuda::figures
