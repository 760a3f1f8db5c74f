#include "apps/laboratory/score/comparison.hpp"

#include "apps/console/steady_time.hpp"
#include "apps/laboratory/score/side_by_side.hpp"
#include "apps/laboratory/score/windows.hpp"
#include "models/load.hpp"
#include "models/sources.hpp"
#include "text/tokenizer.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace paceline::apps {
namespace {

/// A model as the comparison loads it.
struct Loaded {
  std::shared_ptr<const models::CheckpointSource> source;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::shared_ptr<const models::Model> model;
};

/// What is compared with the checkpoint as it is.
struct Subject {
  std::optional<gpu::Quantization> format;
  KvCacheDtype kv_cache_dtype = KvCacheDtype::automatic;
  Activations activations = Activations::bf16;

  bool rounds_rows() const { return activations == Activations::int8; }
  bool as_it_is() const {
    return !format && kv_cache_dtype != KvCacheDtype::int8 && !rounds_rows();
  }
};

models::LoadOptions load_options(const EngineOptions& o) {
  models::LoadOptions how;
  how.dtype = o.dtype;
  if (o.max_model_len > 0)
    how.max_positions = o.max_model_len;
  return how;
}

Result<Loaded> load_model(const std::string& name, const std::string& role,
                          const std::shared_ptr<gpu::Device>& device, const EngineOptions& o) {
  Loaded loaded;
  return models::open_checkpoint(name, role)
      .and_then([&](auto source) {
        loaded.source = std::move(source);
        return loaded.source->tokenizer();
      })
      .and_then([&](auto tokenizer) {
        loaded.tokenizer = std::move(tokenizer);
        return models::load_model(*loaded.source, {device}, load_options(o));
      })
      .map([&](models::Stages&& stages) {
        loaded.model = std::move(stages.front());
        return std::move(loaded);
      });
}

ModelInfo info_of(const Loaded& loaded, const std::string& name) {
  ModelInfo info = loaded.model->info();
  info.name = name;
  return info;
}

} // namespace

struct WeightComparison::Parts {
  Options options;
  std::shared_ptr<gpu::Device> device;
  std::shared_ptr<gpu::Lane> lane;
  Loaded target;
  std::optional<Loaded> draft;

  Result<void> load_draft() {
    if (options.draft.empty())
      return {};
    auto loaded = load_model(options.draft, "draft", device, options.engine);
    if (!loaded)
      return tl::unexpected(loaded.error());
    draft = std::move(*loaded);
    return text::check_same_vocabulary(*target.tokenizer, *draft->tokenizer);
  }

  int least(int (*of)(const Loaded&)) const {
    return draft ? std::min(of(target), of(*draft)) : of(target);
  }
  int vocabulary() const {
    return least(
        [](const Loaded& l) { return std::min(l.tokenizer->vocabulary(), l.model->vocabulary()); });
  }

  int context() const {
    return least([](const Loaded& l) { return l.model->info().max_model_len; });
  }

  /// Loads the model as the subject; the parts that no format quantizes stay as they are. A head
  /// of integers is packed anew where its rows are rounded, too.
  Result<std::shared_ptr<const models::Model>> changed(const Loaded& loaded,
                                                       const Subject& subject) const {
    models::LoadOptions how = load_options(options.engine);
    how.blocks = subject.format;
    how.kv_cache_dtype = subject.kv_cache_dtype;
    how.activations = subject.activations;
    if (subject.rounds_rows())
      how.log = base::Log([](LogLevel, const std::string&) {}); // Said with rows of bf16 already.
    else
      how.shared = loaded.model;
    return models::load_model(*loaded.source, {device}, how).map([](models::Stages&& stages) {
      return stages.front();
    });
  }

  Result<std::optional<WeightFigures>> measure(const Subject& subject,
                                               const std::vector<TokenId>& tokens,
                                               const std::function<void(double)>& progress) const;
};

/// Compares the subject with the checkpoint; none: it is to round rows, and its weights do not.
Result<std::optional<WeightFigures>>
WeightComparison::Parts::measure(const Subject& subject, const std::vector<TokenId>& tokens,
                                 const std::function<void(double)>& progress) const {
  SideBySide::Models all;
  all[SideBySide::reference] = all[SideBySide::subject] = target.model;
  if (draft)
    all[SideBySide::draft] = draft->model;
  const std::pair<SideBySide::Role, const Loaded*> wanted[] = {
      {SideBySide::subject, &target}, {SideBySide::subject_draft, draft ? &*draft : nullptr}};
  for (const auto& [role, from] : wanted) {
    if (subject.as_it_is() || !from)
      continue;
    auto model = changed(*from, subject);
    if (!model)
      return tl::unexpected(model.error());
    if (role == SideBySide::subject && subject.rounds_rows() &&
        (*model)->info().activations.empty())
      return std::nullopt;
    all[role] = std::move(*model);
  }
  auto side = SideBySide::open(all, lane, context(), vocabulary());
  if (!side)
    return tl::unexpected(side.error());
  for (const ScoreWindow& window : score_windows(tokens.size(), std::size_t(context())))
    for (std::size_t first = window.begin; first < window.end; first += reader_rows) {
      const auto count = std::min(std::size_t(reader_rows), window.end - first);
      if (auto read = side->read(window, tokens, first, count); !read)
        return tl::unexpected(read.error());
      progress(double(first + count) / double(tokens.size()));
    }
  WeightFigures figures = side->figures();
  if (subject.format)
    figures.scales = subject.format->scales;
  return figures;
}

WeightComparison::WeightComparison(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
WeightComparison::WeightComparison(WeightComparison&&) noexcept = default;
WeightComparison::~WeightComparison() = default;

Result<WeightComparison> WeightComparison::open(Options options) {
  auto parts = std::make_unique<Parts>();
  parts->options = std::move(options);
  const EngineOptions& o = parts->options.engine;
  if (o.devices.size() != 1)
    return fail(ErrorCode::unsupported, "formats of weights are compared on one device",
                "give EngineOptions::devices = cpu");
  const auto name = gpu::parse_device(o.devices.front());
  if (name && name->kind != gpu::DeviceKind::cpu)
    return fail(ErrorCode::unsupported,
                "formats of weights are compared on a cpu, not on " + o.devices.front(),
                "give EngineOptions::devices = cpu");
  return gpu::open_device(o.devices.front(), {o.threads, std::make_shared<SteadyTime>(), nullptr})
      .and_then([&](auto device) {
        parts->device = std::move(device);
        return parts->device->open_lane("target");
      })
      .and_then([&](auto lane) {
        parts->lane = std::move(lane);
        return load_model(o.target, "target", parts->device, o);
      })
      .and_then([&](Loaded&& target) {
        parts->target = std::move(target);
        return parts->load_draft();
      })
      .map([&] { return WeightComparison(std::move(parts)); });
}

std::vector<TokenId> WeightComparison::tokenize(const std::string& text) const {
  return parts_->target.tokenizer->encode(text, true);
}
int WeightComparison::context() const {
  return parts_->context();
}

ModelInfo WeightComparison::target() const {
  return info_of(parts_->target, parts_->options.engine.target);
}
std::optional<ModelInfo> WeightComparison::draft() const {
  return parts_->draft ? std::optional(info_of(*parts_->draft, parts_->options.draft))
                       : std::nullopt;
}

Result<std::vector<WeightFigures>> WeightComparison::measure(
    const std::vector<TokenId>& tokens,
    const std::function<void(const std::string& what, double done)>& progress) const {
  const EngineOptions& o = parts_->options.engine;
  std::vector<Subject> all;
  const auto add = [&](const std::optional<gpu::Quantization>& format) {
    all.push_back({format, o.kv_cache_dtype});
    if (o.activations == Activations::int8)
      all.push_back({format, o.kv_cache_dtype, Activations::int8});
  };
  if (o.kv_cache_dtype == KvCacheDtype::int8)
    all.emplace_back();
  add(std::nullopt);
  for (const WeightFormat format : parts_->options.formats)
    for (const ScaleChoice scales : {ScaleChoice::search, ScaleChoice::floor, ScaleChoice::ceil})
      add(gpu::Quantization{format, scales});
  std::vector<WeightFigures> out;
  double read = 0;
  for (const Subject& subject : all) {
    const std::string what = subject.format ? to_string(subject.format->format) : target().weights;
    auto figures = parts_->measure(subject, tokens, [&](double done) {
      progress("Reading as " + what, (read + done) / double(all.size()));
    });
    if (!figures)
      return tl::unexpected(figures.error());
    if (*figures)
      out.push_back(std::move(**figures));
    ++read;
  }
  return out;
}

} // namespace paceline::apps
