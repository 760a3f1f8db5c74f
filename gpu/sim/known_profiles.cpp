// The built-in profiles.
#include "gpu/sim/profile.hpp"

namespace paceline::gpu::sim {
namespace {

using namespace std::chrono_literals;

constexpr const char* chen_2023 =
    "Chen et al. 2023, Accelerating large language model decoding with speculative sampling, "
    "section 4: 14.1 and 1.8 ms a token on 16 TPU v4. Prefill is not given: two operations per "
    "parameter and row at half of the machine's peak (16 x 275 T operations/s)";
constexpr const char* opt_a100 =
    "computed, not measured: sizes of Zhang et al. 2022, OPT (f16), read at 80 % of an A100's "
    "2,039 GB/s (80 GB; NVIDIA's data sheet); prefill at half of its 312 T operations/s";
constexpr const char* llama_a100 =
    "computed, not measured: sizes of Touvron et al. 2023, LLaMA (f16), and of the 68 M draft of "
    "Miao et al. 2023, SpecInfer, read at 80 % of an A100's 2,039 GB/s (80 GB; NVIDIA's data "
    "sheet); prefill at half of its 312 T operations/s";
// Derivation for LLaMA-13B. Linear layers take 44.28 ms for 4 rows and 224.8 for 1,024. Attention
// takes 5.68 ms for 4 sequences, 10 for a prompt and 15.2 less 1.6 (saved in the linear part) for
// both, of a length of 1,024: 1.21 ms a sequence, 9.16 for the prompt's 524,800 reads, and 0.84 for
// either.
constexpr const char* sarathi =
    "Agrawal et al. 2023, SARATHI, table 2: LLaMA-13B on an A6000, 4 decodes, a prompt of 1,024, "
    "and "
    "1,021 + 3. Rows between 4 and 1,024 are not given: weights' time up to where a line through "
    "the origin and 1,024 rows crosses it";
constexpr const char* sarathi_a100 =
    "computed, not measured, for the models of Agrawal et al. 2023, SARATHI, and 2024, "
    "Sarathi-Serve: "
    "f16 weights and keys and values read at 80 % of an A100's 2,039 GB/s (80 GB; NVIDIA's data "
    "sheet), rows at half of its 312 T operations/s, a prompt's attention at 0.3 of it and a "
    "step's "
    "by layers, both as of LLaMA-13B on an A6000";
constexpr const char* sarathi_gpt3 = "computed, not measured, for the pipeline of Agrawal et al. "
                                     "2023, SARATHI, section 5.3: GPT-3 on "
                                     "64 A100 in 8 stages of 8 GPUs each, all stages together. "
                                     "Weights, rows and attention as of the "
                                     "other models on an A100, by 8; for all-reduces among 8 over "
                                     "NVLink (600 GB/s) 28 us more a row";

} // namespace

// A parameter has 2 bytes, so each billion takes 1.226 ms at 80 % of the A100's bandwidth. Small
// models of twelve to forty layers are bound by kernel launches instead (about 10 of 3 us a layer).
const std::vector<KnownProfile>& known_profiles() {
  static const std::vector<KnownProfile> known{
      {"chinchilla-70b", 14100us, 64us, chen_2023},
      {"chinchilla-4b", 1800us, 4us, chen_2023},
      {"opt-13b", 15800us, 165us, opt_a100},
      {"opt-125m", 360us, 2us, opt_a100},
      {"llama-7b", 8300us, 86us, llama_a100},
      {"llama-68m", 140us, 1us, llama_a100},
      {"llama-13b-a6000", 44280us, 219600ns, sarathi, 202, {840us, 1181ms, 17450us}},
      {"llama-33b-a100", 39900us, 417us, sarathi_a100, 96, {1260us, 980ms, 17000us}},
      {"mistral-7b-a100", 8900us, 93us, sarathi_a100, 96, {670us, 80ms, 5600us}},
      {"gpt3-175b-8xa100", 26800us, 308us, sarathi_gpt3, 87, {2016us, 362ms, 6300us}},
  };
  return known;
}

} // namespace paceline::gpu::sim
