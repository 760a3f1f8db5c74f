#include "apps/inspect/checkpoint.hpp"

#include "gpu/mx.hpp"
#include "models/eagle3.hpp"
#include "speculation/limits.hpp"

#include <set>
#include <utility>

namespace paceline::apps {
namespace {

const char* name_of(models::ModelPart part) {
  switch (part) {
  case models::ModelPart::embedding: return "embedding";
  case models::ModelPart::head: return "output head";
  case models::ModelPart::norms: return "norms";
  case models::ModelPart::attention: return "attention";
  case models::ModelPart::feed_forward: return "feed-forward";
  case models::ModelPart::other: break;
  }
  return "other";
}

/// What is left of a block's matrices: elements, and a scale for each block of them.
std::uint64_t quantized_bytes(WeightFormat format, std::uint64_t elements) {
  const auto bits = std::uint64_t(gpu::element_bits(format) * gpu::mx_block + 8);
  return elements * bits / (8 * gpu::mx_block);
}

void add_tensors(Checkpoint& checkpoint, const models::TensorSource& source) {
  using enum models::ModelPart;
  std::set<std::string> dtypes;
  for (const auto& tensor : source.tensors()) {
    checkpoint.bytes[name_of(tensor.part)] += tensor.bytes;
    checkpoint.parameters += tensor.elements;
    if (!tensor.format.empty())
      dtypes.emplace(tensor.format);
    if (tensor.part != attention && tensor.part != feed_forward)
      checkpoint.kept_bytes += tensor.bytes;
    else if (checkpoint.format && !tensor.quantized)
      checkpoint.saved_bytes += tensor.bytes - quantized_bytes(*checkpoint.format, tensor.elements);
  }
  checkpoint.dtypes.assign(dtypes.begin(), dtypes.end());
  checkpoint.cache_dtype = source.dtype() == gpu::DType::bf16 ? gpu::DType::bf16 : gpu::DType::f32;
}

/// Moves a result's value to `out`, or hands its error on.
template <class T>
Result<void> assign(T& out, Result<T> result) {
  if (!result)
    return tl::unexpected(result.error());
  out = std::move(*result);
  return {};
}

} // namespace

Result<Checkpoint> read_checkpoint(const std::string& name, const std::string& role,
                                   const std::optional<WeightFormat>& format) {
  const auto source = models::open_checkpoint(name, role);
  if (!source)
    return tl::unexpected(source.error());
  const models::CheckpointSource& from = **source;
  Checkpoint c;
  c.name = name;
  c.format = format;
  c.folder = from.location();
  std::unique_ptr<models::TensorSource> tensors;
  const auto read = assign(c.config, from.config())
                        .and_then([&] { return assign(c.defaults, from.generation_defaults()); })
                        .and_then([&] { return assign(c.tokenizer, from.tokenizer()); })
                        .and_then([&] { return assign(tensors, from.tensors(c.config)); });
  if (!read)
    return tl::unexpected(read.error());
  c.chat = from.chat_template(c.tokenizer->decode(c.tokenizer->encode("", true)));
  add_tensors(c, *tensors);
  return c;
}

namespace {

/// The target once more: what is not quantized is the target's.
Result<Checkpoint> read_self_draft(const std::string& name, const std::string& target) {
  return models::self_draft_format(name)
      .and_then([&](WeightFormat format) { return read_checkpoint(target, "target", format); })
      .map([&](Checkpoint&& draft) {
        draft.name = name;
        draft.shared_bytes = draft.kept_bytes;
        return std::move(draft);
      });
}

/// A head on the target, whose tokenizer it has. The target leaves what it reads in its pages.
Result<Checkpoint> read_head_draft(Checkpoint& target, const std::string& name) {
  Checkpoint c;
  c.name = name;
  c.tokenizer = target.tokenizer;
  c.defaults = target.defaults;
  models::Eagle3Config config;
  models::Eagle3Tensors tensors;
  const models::ModelConfig& t = target.config;
  const auto read =
      assign(c.folder, models::resolve_model_path(models::eagle3_source(name), "eagle3"))
          .and_then([&] { return assign(config, models::read_eagle3_config(c.folder)); })
          .and_then([&] {
            return assign(c.target_layers,
                          models::taps_in({target.name, t.hidden, t.vocabulary, t.layers}, config));
          })
          .and_then([&] { return assign(tensors, models::read_eagle3_tensors(c.folder, config)); });
  if (!read)
    return tl::unexpected(read.error());
  c.config = config.model;
  c.head_layout = config.layout;
  target.config.taps = c.target_layers;
  add_tensors(c, *tensors.tensors);
  return c;
}

} // namespace

Result<Checkpoint> read_draft(const std::string& name, Checkpoint& target,
                              const std::optional<WeightFormat>& format) {
  if (models::is_self_draft(name))
    return read_self_draft(name, target.name);
  return models::is_eagle3_draft(name) ? read_head_draft(target, name)
                                       : read_checkpoint(name, "draft", format);
}

Pair pair_of(const Checkpoint& target, const Checkpoint& draft) {
  const auto context = std::uint64_t(target.config.context);
  auto map = text::map_vocabularies(*target.tokenizer, *draft.tokenizer);
  const auto slots = std::uint64_t(map && *map ? speculation::limits::draft_slots_per_token : 1);
  return {std::move(map),
          target.loaded_bytes() + draft.loaded_bytes() - draft.shared_bytes +
              context * (target.kv_bytes_per_token() + slots * draft.kv_bytes_per_token()),
          draft.config.context < target.config.context ? draft.config.context : 0};
}

} // namespace paceline::apps
