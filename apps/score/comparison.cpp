#include "apps/score/comparison.hpp"

#include "apps/score/reader.hpp"
#include "apps/score/windows.hpp"
#include "apps/steady_time.hpp"
#include "models/sources.hpp"
#include "sampling/theory.hpp"
#include "sampling/warp.hpp"
#include "text/tokenizer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <span>
#include <utility>

namespace paceline::apps {
namespace {

/// A model as the comparison loads it.
struct Loaded {
  std::shared_ptr<const models::CheckpointSource> source;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::shared_ptr<const models::Model> model;
};

models::LoadOptions load_options(const EngineOptions& o) {
  models::LoadOptions how;
  how.dtype = o.dtype;
  if (o.max_model_len > 0)
    how.max_positions = o.max_model_len;
  return how;
}

Result<Loaded> load(const std::string& name, const std::string& role,
                    const std::shared_ptr<gpu::Device>& device, const EngineOptions& o) {
  Loaded loaded;
  return models::open_checkpoint(name, role)
      .and_then([&](auto source) {
        loaded.source = std::move(source);
        return loaded.source->tokenizer();
      })
      .and_then([&](auto tokenizer) {
        loaded.tokenizer = std::move(tokenizer);
        return loaded.source->load(device, load_options(o));
      })
      .map([&](auto model) {
        loaded.model = std::move(model);
        return std::move(loaded);
      });
}

ModelInfo info_of(const Loaded& loaded, const std::string& name) {
  ModelInfo info = loaded.model->info();
  info.name = name;
  return info;
}

/// What a model says of the next token.
class Distribution {
public:
  /// False: the model failed.
  bool read(std::span<const float> logits) {
    logits_ = logits;
    p_.resize(logits.size());
    const sampling::Warping plain{.temperature = 1, .logit_bias = {}};
    if (!sampling::warp(logits, int(logits.size()), plain, {}, scratch_, p_))
      return false;
    top_ = std::size_t(std::max_element(logits.begin(), logits.end()) - logits.begin());
    log_sum_ = double(logits[top_]) - std::log(double(p_[top_]));
    return true;
  }

  double logprob(TokenId token) const { return double(logits_[std::size_t(token)]) - log_sum_; }
  bool same_top(const Distribution& other) const { return top_ == other.top_; }
  double acceptance(const Distribution& draft) const {
    return sampling::theory::acceptance(p_, draft.p_);
  }
  /// Sum of p log(p / q), by logits, so that nothing is too small for a logarithm.
  double divergence(const Distribution& q) const {
    double sum = q.log_sum_ - log_sum_;
    for (std::size_t i = 0; i < p_.size(); ++i)
      sum += double(p_[i]) * (double(logits_[i]) - double(q.logits_[i]));
    return sum;
  }

private:
  std::span<const float> logits_;
  std::vector<float> p_;
  std::size_t top_ = 0;
  double log_sum_ = 0;
  sampling::WarpScratch scratch_;
};

enum Role { reference, subject, draft, subject_draft, roles };

/// Models that read a text side by side, and what their rows add up to.
class SideBySide {
public:
  /// models: by Role; null: not there. Subject and reference are.
  static Result<SideBySide> open(const std::array<std::shared_ptr<const models::Model>, roles>& all,
                                 const std::shared_ptr<gpu::Lane>& lane, int context,
                                 int vocabulary) {
    SideBySide side;
    side.vocabulary_ = vocabulary;
    for (std::size_t role = 0; role < roles; ++role) {
      if (!all[role])
        continue;
      auto reader = Reader::open(all[role], lane, context);
      if (!reader)
        return tl::unexpected(reader.error());
      side.readers_[role] = std::move(*reader);
    }
    return side;
  }

  /// Reads tokens [first, first + count) of a window, and scores those behind them.
  Result<void> read(const ScoreWindow& window, std::span<const TokenId> text, std::size_t first,
                    std::size_t count) {
    std::array<gpu::Tensor, roles> rows;
    for (std::size_t role = 0; role < roles; ++role) {
      if (!readers_[role])
        continue;
      auto read = readers_[role]->read(int(first - window.begin), text.subspan(first, count));
      if (!read)
        return tl::unexpected(read.error());
      rows[role] = *read;
    }
    for (std::size_t i = 0; i < count; ++i)
      if (const std::size_t next = first + i + 1; next >= window.fresh && next < window.end)
        if (auto added = add(rows, int(i), text[next]); !added)
          return added;
    return {};
  }

  WeightFigures figures() const {
    const auto mean = [this](double sum) { return sum / double(tokens_); };
    const auto if_there = [&](Role role, double sum) {
      return readers_[role] ? std::optional(mean(sum)) : std::nullopt;
    };
    WeightFigures out;
    out.weights = readers_[subject]->model().info().weights;
    out.weight_bytes = readers_[subject]->model().info().weight_bytes;
    out.perplexity = std::exp(-mean(logprob_));
    out.kl_divergence = mean(divergence_);
    out.same_top = mean(double(same_top_));
    out.self_acceptance = mean(self_);
    out.draft_acceptance = if_there(draft, draft_);
    out.same_format_draft_acceptance = if_there(subject_draft, same_format_);
    return out;
  }

private:
  Result<void> add(const std::array<gpu::Tensor, roles>& rows, int row, TokenId next) {
    for (std::size_t role = 0; role < roles; ++role)
      if (readers_[role] && !of_[role].read({rows[role].row(row), std::size_t(vocabulary_)}))
        return fail(ErrorCode::internal,
                    readers_[role]->model().info().name + " gives logits that are no numbers",
                    "the checkpoint may be damaged");
    const Distribution& p = of_[subject];
    ++tokens_;
    logprob_ += p.logprob(next);
    divergence_ += of_[reference].divergence(p);
    same_top_ += of_[reference].same_top(p);
    self_ += of_[reference].acceptance(p);
    draft_ += readers_[draft] ? p.acceptance(of_[draft]) : 0;
    same_format_ += readers_[subject_draft] ? p.acceptance(of_[subject_draft]) : 0;
    return {};
  }

  std::array<std::optional<Reader>, roles> readers_;
  std::array<Distribution, roles> of_;
  int vocabulary_ = 0;
  std::size_t tokens_ = 0;
  std::size_t same_top_ = 0;
  double logprob_ = 0;
  double divergence_ = 0;
  double self_ = 0;
  double draft_ = 0;
  double same_format_ = 0;
};

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
    auto loaded = load(options.draft, "draft", device, options.engine);
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

  /// The model in the format, with the rest of it as it is.
  Result<std::shared_ptr<const models::Model>> quantized(const Loaded& loaded,
                                                         gpu::Quantization format) const {
    models::LoadOptions how = load_options(options.engine);
    how.blocks = format;
    how.shared = loaded.model;
    return loaded.source->load(device, how);
  }

  Result<WeightFigures> measure(const std::optional<gpu::Quantization>& format,
                                const std::vector<TokenId>& tokens,
                                const std::function<void(double)>& progress) const;
};

/// format: none: the checkpoint beside itself.
Result<WeightFigures>
WeightComparison::Parts::measure(const std::optional<gpu::Quantization>& format,
                                 const std::vector<TokenId>& tokens,
                                 const std::function<void(double)>& progress) const {
  std::array<std::shared_ptr<const models::Model>, roles> all;
  all[reference] = all[subject] = target.model;
  if (draft)
    all[Role::draft] = draft->model;
  const std::pair<Role, const Loaded*> wanted[] = {{subject, &target},
                                                   {subject_draft, draft ? &*draft : nullptr}};
  for (const auto& [role, from] : wanted) {
    if (!format || !from)
      continue;
    auto model = quantized(*from, *format);
    if (!model)
      return tl::unexpected(model.error());
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
  if (format)
    figures.scales = format->scales;
  return figures;
}

WeightComparison::WeightComparison(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
WeightComparison::WeightComparison(WeightComparison&&) noexcept = default;
WeightComparison::~WeightComparison() = default;

Result<WeightComparison> WeightComparison::open(Options options) {
  auto parts = std::make_unique<Parts>();
  parts->options = std::move(options);
  const EngineOptions& o = parts->options.engine;
  const auto name = gpu::parse_device(o.device);
  if (name && name->kind != gpu::DeviceKind::cpu)
    return fail(ErrorCode::unsupported,
                "formats of weights are compared on a cpu, not on " + o.device,
                "leave EngineOptions::device out");
  return gpu::open_device(o.device, {o.threads, std::make_shared<SteadyTime>(), nullptr})
      .and_then([&](auto device) {
        parts->device = std::move(device);
        return parts->device->open_lane("target");
      })
      .and_then([&](auto lane) {
        parts->lane = std::move(lane);
        return load(o.target, "target", parts->device, o);
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
  std::vector<std::optional<gpu::Quantization>> all{std::nullopt};
  for (const WeightFormat format : parts_->options.formats)
    for (const ScaleChoice scales : {ScaleChoice::search, ScaleChoice::floor, ScaleChoice::ceil})
      all.push_back(gpu::Quantization{format, scales});
  std::vector<WeightFigures> out;
  for (const auto& format : all) {
    const std::string what = format ? to_string(format->format) : target().weights;
    auto figures = parts_->measure(format, tokens, [&](double done) {
      progress("Reading as " + what, (double(out.size()) + done) / double(all.size()));
    });
    if (!figures)
      return tl::unexpected(figures.error());
    out.push_back(std::move(*figures));
  }
  return out;
}

} // namespace paceline::apps
