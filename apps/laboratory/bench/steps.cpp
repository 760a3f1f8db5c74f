#include "apps/laboratory/bench/steps.hpp"

#include "actors/other_machines.hpp"
#include "apps/console/statistics.hpp"
#include "apps/console/steady_time.hpp"
#include "apps/laboratory/reader.hpp"
#include "models/head.hpp"
#include "models/load.hpp"
#include "models/sources.hpp"
#include "nodes/network.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <iterator>

namespace paceline::apps {
namespace {

constexpr int context = 256;
constexpr int prefill_rows = 512;
constexpr int rounds = 11; // Row counts take turns in so many rounds.
constexpr int passes = 3;  // Passes of a row count in each round.
constexpr int prefill_repetitions = 5;
constexpr std::array rows_measured{1, 2, 4, 8, 16};
constexpr std::array product_rows{1, 2, 4, 8, 16, 32, 64, prefill_rows};

std::vector<TokenId> some_tokens(int count, int vocabulary) {
  std::vector<TokenId> tokens(std::size_t(count), 0);
  for (int i = 0; i < count; ++i)
    tokens[std::size_t(i)] = TokenId(i * 7 + 1) % vocabulary;
  return tokens;
}

/// A model alone on its device, with one sequence's pages.
struct Solo {
  std::shared_ptr<gpu::Device> device;
  Reader reader;

  /// Returns the seconds of passes over `rows` tokens from position `start`. They compute 16 rows
  /// of logits at most; the fast path computes none.
  Result<std::vector<double>> measure(int start, int rows, int times, bool fast = false) {
    const auto tokens = some_tokens(rows, reader.model().vocabulary());
    const int logits_from = fast ? rows : std::max(0, rows - rows_measured.back());
    return reader.read(start, tokens, logits_from, times, fast);
  }
};

/// Returns the format of a draft that is the target itself; none if it is a model of its own.
Result<std::optional<WeightFormat>> self_format(const ModelInfo& info, const std::string& role) {
  if (role != "draft" || !models::is_self_draft(info.name))
    return std::nullopt;
  return models::self_draft_format(info.name).map([](WeightFormat f) { return std::optional(f); });
}

using LoadedModel = Result<std::shared_ptr<const models::Model>>;

LoadedModel load_on(const std::shared_ptr<gpu::Device>& device, const std::string& name,
                    const std::string& role, const models::LoadOptions& how) {
  return models::open_checkpoint(name, role)
      .and_then([&](const auto& source) { return models::load_model(*source, {device}, how); })
      .map([](models::Stages&& stages) { return stages.front(); });
}

/// Loads a head together with the target that it belongs to.
LoadedModel load_head(const ModelInfo& info, const EngineOptions& o,
                      const std::shared_ptr<gpu::Device>& device, const models::LoadOptions& how) {
  const auto source = models::open_checkpoint(o.target, "target");
  if (!source)
    return tl::unexpected(source.error());
  return models::load_model(**source, {device}, models::load_formats(o, "target"))
      .and_then([&](const models::Stages& target) {
        return models::load_head(info.name, **source, target.front(), device, how);
      })
      .map([](models::Head&& head) { return head.model; });
}

LoadedModel load_alone(const ModelInfo& info, const std::string& role, bool self,
                       const EngineOptions& o, const std::shared_ptr<gpu::Device>& device,
                       const models::LoadOptions& how) {
  if (role == "draft" && models::is_head_draft(info.name))
    return load_head(info, o, device, how);
  return self ? load_on(device, o.target, "target", how) : load_on(device, info.name, role, how);
}

/// Returns the device that stands for this one: a node's device is measured on this machine, if
/// that has one of the same name.
std::string device_here(const std::string& device) {
  if (!actors::is_node_device(device))
    return device;
  const auto address = nodes::parse_node_address("--draft-device", device);
  return address && !address->device.empty() ? address->device : "cpu";
}

Result<Solo> open_solo(const ModelInfo& info, const std::string& role, const EngineOptions& o) {
  const auto self = self_format(info, role);
  if (!self)
    return tl::unexpected(self.error());
  const int threads = role == "target" || (*self && o.draft_devices.empty()) ? o.threads : 0;
  models::LoadOptions how = models::load_formats(o, role);
  if (*self)
    how.blocks = gpu::Quantization{**self, o.weight_scales};
  const int positions = std::max(prefill_rows, context + rows_measured.back());
  std::shared_ptr<gpu::Device> device;
  std::shared_ptr<const models::Model> model;
  return gpu::open_device(device_here(info.device),
                          {threads, std::make_shared<SteadyTime>(), nullptr})
      .and_then([&](auto opened) {
        device = std::move(opened);
        return load_alone(info, role, self->has_value(), o, device, how);
      })
      .and_then([&](auto loaded) {
        model = std::move(loaded);
        return info.prefill == Prefill::fast ? model->prepare_fast_prefill(prefill_rows)
                                             : Result<void>();
      })
      .and_then([&] { return device->open_lane(role); })
      .and_then([&](auto lane) {
        return Reader::open(model, std::move(lane), positions, positions, rows_measured.back());
      })
      .map([&](Reader&& reader) {
        return Solo{device, std::move(reader)};
      });
}

/// Returns the multiply-adds of a prefill of prefill_rows tokens: only rows whose logits are asked
/// for go through the last block's attention and feed-forward, and through the head.
double prefill_multiply_adds(const models::ModelConfig& c, bool fast) {
  const double rows = prefill_rows;
  const double asked = fast ? 0 : rows_measured.back();
  double queries = 0; // like `outputs` the average of the layers
  double outputs = 0;
  for (int i = 0; i < c.layers; ++i) {
    queries += double(c.heads) * c.head_dim_in(i) / c.layers;
    outputs += double(c.attention_outputs(i)) / c.layers;
  }
  const double to_qkv = c.hidden * outputs;
  const double rest = double(c.hidden) * (queries + c.ffn_products() * c.active_ffn());
  const double keys = rows * (rows + 1) / 2; // Each row sees those before it.
  const double keys_asked = asked * (2 * rows - asked + 1) / 2;
  return (c.layers - 1) * (rows * (to_qkv + rest) + 2 * keys * queries) + rows * to_qkv +
         asked * rest + 2 * keys_asked * queries + asked * c.hidden * double(c.vocabulary);
}

/// Measures every row count in turn and, on the host, a plain read of the same weights, so that
/// other work of the machine affects all of them.
Result<StepTimes> measure_rows(Solo& solo) {
  const auto weights = solo.reader.model().step_weights();
  std::map<int, std::vector<double>> seconds; // Seconds by rows; 0 stands for reading.
  for (int round = 0; round < rounds; ++round) {
    for (const int rows : rows_measured) {
      const auto some = solo.measure(context, rows, passes);
      if (!some)
        return tl::unexpected(some.error());
      seconds[rows].insert(seconds[rows].end(), some->begin(), some->end());
    }
    if (!solo.device->on_host())
      continue;
    const auto reads = time_reads(solo.reader.lane(), weights, passes);
    if (!reads)
      return tl::unexpected(reads.error());
    seconds[0].insert(seconds[0].end(), reads->begin(), reads->end());
  }
  StepTimes times;
  for (const int rows : rows_measured)
    times.target[rows] = median(seconds[rows]);
  const models::ExpertWeights experts = solo.reader.model().expert_weights();
  times.weight_bytes = bytes_of(weights) + experts.share * bytes_of(experts.weights);
  if (solo.device->on_host())
    times.machine.read_bytes_per_second = bytes_of(weights) / median(seconds[0]);
  return times;
}

Result<void> measure_prefill(const ModelInfo& info, Solo& solo, StepTimes& times) {
  if (info.max_model_len < prefill_rows)
    return {};
  const bool fast = info.prefill == Prefill::fast;
  const auto prefill = solo.measure(0, prefill_rows, prefill_repetitions, fast);
  if (!prefill)
    return tl::unexpected(prefill.error());
  times.prefill_512 = median(*prefill);
  const auto source = models::open_checkpoint(info.name, "target");
  if (const auto config = source.and_then([](const auto& from) { return from->config(); }))
    times.prefill_multiply_adds = prefill_multiply_adds(*config, fast);
  return {};
}

Result<StepTimes> measure_target(const ModelInfo& info, const EngineOptions& o) {
  auto solo = open_solo(info, "target", o);
  if (!solo)
    return tl::unexpected(solo.error());
  auto times = measure_rows(*solo);
  if (!times)
    return times;
  if (const auto prefill = measure_prefill(info, *solo, *times); !prefill)
    return tl::unexpected(prefill.error());
  if (!solo->device->on_host()) {
    times->products = gpu::cuda::time_products(solo->device->name(),
                                               solo->reader.model().step_weights(), product_rows);
    return times;
  }
  auto machine = measure_machine(*solo->device, solo->reader.lane());
  if (!machine)
    return tl::unexpected(machine.error());
  machine->read_bytes_per_second = times->machine.read_bytes_per_second;
  times->machine = *machine;
  return measure_sampler(solo->reader.lane()).map([&](auto sampler) {
    times->sampler = std::move(sampler);
    return std::move(*times);
  });
}

Result<double> measure_draft(const ModelInfo& info, const EngineOptions& o) {
  auto solo = open_solo(info, "draft", o);
  if (!solo)
    return tl::unexpected(solo.error());
  return solo->measure(context, 1, rounds * passes).map([](const auto& times) {
    return median(times);
  });
}

} // namespace

double StepTimes::target_seconds(double rows) const {
  const auto above = target.lower_bound(int(std::ceil(rows)));
  if (above == target.end())
    return target.rbegin()->second;
  if (above == target.begin())
    return above->second;
  const auto below = std::prev(above);
  const double share = (rows - below->first) / (above->first - below->first);
  return below->second + share * (above->second - below->second);
}

Result<StepTimes> measure_steps(const ModelInfo& target, const std::optional<ModelInfo>& draft,
                                const EngineOptions& options) {
  if (target.max_model_len < context + rows_measured.back())
    return fail(
        ErrorCode::unsupported,
        fmt::format("the context of {} tokens is too short to measure steps", target.max_model_len),
        "use a model with 272 tokens of context or more");
  auto times = measure_target(target, options);
  if (!times || !draft)
    return times;
  const auto seconds = measure_draft(*draft, options);
  if (!seconds)
    return tl::unexpected(seconds.error());
  times->draft = *seconds;
  return times;
}

} // namespace paceline::apps
