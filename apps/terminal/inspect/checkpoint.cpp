#include "apps/terminal/inspect/checkpoint.hpp"

#include "gpu/mx.hpp"
#include "models/head.hpp"
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

/// Returns the size of a block's matrices after quantization: elements, and a scale for each block
/// of them.
std::uint64_t quantized_bytes(WeightFormat format, std::uint64_t elements) {
  const auto bits = std::uint64_t(gpu::element_bits(format) * gpu::mx_block + 8);
  return elements * bits / (8 * gpu::mx_block);
}

void add_tensors(Checkpoint& checkpoint, const models::TensorSource& source) {
  using enum models::ModelPart;
  std::set<std::string> dtypes;
  const std::uint64_t number = gpu::size_of(source.dtype());
  checkpoint.decoded_to = source.dtype();
  for (const auto& tensor : source.tensors()) {
    checkpoint.bytes[name_of(tensor.part)] += tensor.bytes;
    checkpoint.parameters += tensor.elements;
    if (!tensor.format.empty()) {
      dtypes.emplace(tensor.format);
      checkpoint.formats[name_of(tensor.part)].emplace(tensor.format);
    }
    const std::uint64_t loaded = tensor.decoded ? tensor.elements * number : tensor.bytes;
    checkpoint.decoded_bytes += tensor.decoded ? loaded : 0;
    const bool in_block = tensor.part == attention || tensor.part == feed_forward;
    checkpoint.kept_bytes += in_block ? 0 : loaded;
    checkpoint.loaded_bytes += in_block && checkpoint.format && !tensor.quantized
                                   ? quantized_bytes(*checkpoint.format, tensor.elements)
                                   : loaded;
  }
  checkpoint.dtypes.assign(dtypes.begin(), dtypes.end());
  checkpoint.cached = source.dtype() == gpu::DType::bf16 ? gpu::KvType::bf16 : gpu::KvType::f32;
}

/// Returns the tensors that the mixer of a recurrent layer may have.
std::vector<models::TensorRole> recurrent_roles(const models::ModelConfig& config) {
  using enum models::TensorRole;
  if (config.convolution)
    return {mixer_in, kernel, mixer_out};
  if (config.recurrence->sums())
    return {mixer_in, kernel, speed, offset, skip, recurrence_norm, mixer_out};
  return {delta_in, delta_gate, delta_strength, delta_rate,      delta_joined, delta_rates,
          kernel,   speed,      offset,         recurrence_norm, mixer_out};
}

/// Returns the tensors that a model of this configuration needs and the source does not have. A
/// layer may be stored as several tensors, whose names all begin with its own.
std::vector<std::string> missing_in(const models::ModelConfig& config,
                                    const models::TensorSource& source) {
  using enum models::TensorRole;
  std::set<std::string> stored;
  for (const auto& tensor : source.tensors())
    stored.insert(tensor.name);
  std::vector<std::string> out;
  const auto want = [&](models::TensorKey key) {
    const std::string name = source.name(key);
    const std::string layer = name.substr(0, name.rfind('.') + 1);
    const auto at = stored.lower_bound(layer);
    if (at == stored.end() || !at->starts_with(layer))
      out.push_back(name);
  };
  if (!source.has(embedding) && !(config.tied_embedding && source.has(head)))
    out.push_back(source.name({embedding}));
  if (!source.has(head) && !config.tied_embedding)
    out.push_back(source.name({head}));
  want({final_norm});
  if (config.positions)
    want({positions});
  for (int block = 0; block < config.layers; ++block) {
    const auto want_stored = [&](const std::vector<models::TensorRole>& roles) {
      for (const models::TensorRole role : roles)
        if (source.has(role))
          want({role, block});
    };
    if (config.has_mixer(block))
      want_stored({attention_norm, attention_post_norm});
    if (config.feeds(block))
      want_stored({ffn_norm, ffn_post_norm});
    if (config.is_recurrent(block))
      want_stored(recurrent_roles(config));
    if (config.attends(block))
      want_stored({query, key, value, query_key_value, attention_out});
    const models::MixtureConfig* mixture = config.mixture_in(block);
    const auto want_expert = [&](int expert) {
      for (const auto role : {gate, up, gate_up, down})
        if (source.has(role))
          want({role, block, expert});
    };
    if (mixture)
      want({router, block});
    const int experts = mixture ? mixture->experts : 0;
    for (int expert = mixture ? 0 : -1; config.feeds(block) && expert < experts; ++expert)
      want_expert(expert);
    if (mixture && mixture->shared_ffn > 0)
      want_expert(models::shared_expert);
    if (mixture && mixture->shared_gate)
      want({shared_gate, block});
    if (config.qk_norm != models::QkNorm::none && config.attends(block))
      for (const auto role : {query_norm, key_norm})
        want({role, block});
  }
  return out;
}

/// Moves a result's value to `out`, or returns its error.
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
                        .and_then([&] { return assign(c.description, from.description()); })
                        .and_then([&] { return assign(tensors, from.tensors(c.config)); });
  if (!read)
    return tl::unexpected(read.error());
  c.chat = from.chat_template(c.tokenizer->decode(c.tokenizer->encode("", true)));
  add_tensors(c, *tensors);
  c.missing = missing_in(c.config, *tensors);
  return c;
}

namespace {

/// Reads the target once more; the parts that are not quantized are shared with the target.
Result<Checkpoint> read_self_draft(const std::string& name, const std::string& target) {
  return models::self_draft_format(name)
      .and_then([&](WeightFormat format) { return read_checkpoint(target, "target", format); })
      .map([&](Checkpoint&& draft) {
        draft.name = name;
        draft.shared_bytes = draft.kept_bytes;
        return std::move(draft);
      });
}

/// Reads a head on the target, whose tokenizer it has. The target keeps in its pages the values
/// that the head reads.
Result<Checkpoint> read_head_draft(Checkpoint& target, const std::string& name) {
  Checkpoint c;
  c.name = name;
  c.tokenizer = target.tokenizer;
  c.defaults = target.defaults;
  models::HeadSource head;
  const auto read =
      models::open_checkpoint(target.name, "target").and_then([&](const auto& source) {
        return assign(head, models::open_head(name, *source, target.config));
      });
  if (!read)
    return tl::unexpected(read.error());
  c.folder = head.location;
  c.config = head.model;
  c.head_layout = head.layout;
  c.target_layers = target.config.taps = head.taps;
  c.key_layers = target.config.key_taps = head.key_taps;
  add_tensors(c, *head.tensors);
  return c;
}

} // namespace

Result<Checkpoint> read_draft(const std::string& name, Checkpoint& target,
                              const std::optional<WeightFormat>& format) {
  if (models::is_self_draft(name))
    return read_self_draft(name, target.name);
  return models::is_head_draft(name) ? read_head_draft(target, name)
                                     : read_checkpoint(name, "draft", format);
}

Pair pair_of(const Checkpoint& target, const Checkpoint& draft) {
  const auto context = std::uint64_t(target.config.context);
  auto map = text::map_vocabularies(*target.tokenizer, *draft.tokenizer);
  const auto slots = std::uint64_t(map && *map ? speculation::limits::draft_slots_per_token : 1);
  return {std::move(map),
          target.loaded_bytes + draft.loaded_bytes - draft.shared_bytes +
              context * (target.kv_bytes_per_token() + slots * draft.kv_bytes_per_token()),
          draft.config.context < target.config.context ? draft.config.context : 0};
}

} // namespace paceline::apps
