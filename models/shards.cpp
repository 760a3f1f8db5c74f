#include "models/shards.hpp"

#include "gpu/mx.hpp"
#include "text/json.hpp"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <vector>

namespace paceline::models {
namespace {

bool divides(const ModelConfig& c, bool in_blocks, int shards) {
  if (c.heads % shards != 0 || c.vocabulary < shards)
    return false;
  const int tile = in_blocks && shards > 1 ? gpu::mx_block : 1;
  for (int layer = 0; layer < c.layers; ++layer) {
    const int kv_heads = c.kv_heads_in(layer);
    const int attended = c.heads / shards * c.head_dim_in(layer);
    if ((kv_heads % shards != 0 && shards % kv_heads != 0) || attended % tile != 0 ||
        (!c.mixture_in(layer) && c.ffn_in(layer) % (shards * tile) != 0))
      return false;
  }
  if (c.mixture && (c.mixture->ffn % (shards * std::max(tile, 8)) != 0 ||
                    c.mixture->shared_ffn % (shards * tile) != 0))
    return false;
  return true;
}

std::vector<int> numbers_that_divide(const ModelConfig& c, bool in_blocks) {
  std::vector<int> numbers;
  for (int shards = 1; shards <= c.heads; ++shards)
    if (divides(c, in_blocks, shards))
      numbers.push_back(shards);
  return numbers;
}

} // namespace

Range Shard::part(int rows) const {
  const auto cut = [&](int shard) { return int(std::int64_t(rows) * shard / of); };
  return {cut(number), cut(number + 1) - cut(number)};
}

Range Shard::kv_heads(int all) const {
  if (all >= of)
    return part(all);
  return {number * all / of, 1};
}

ModelConfig Shard::config(ModelConfig whole) const {
  const int heads_here = heads(whole).count;
  whole.kv_heads = kv_heads(whole.kv_heads).count;
  whole.ffn = part(whole.ffn).count;
  whole.heads = heads_here;
  for (LayerConfig& layer : whole.mixers) {
    layer.kv_heads = layer.kv_heads > 0 ? kv_heads(layer.kv_heads).count : 0;
    layer.ffn = part(layer.ffn).count;
  }
  if (whole.mixture)
    for (int* width : {&whole.mixture->ffn, &whole.mixture->shared_ffn})
      *width = part(*width).count;
  return whole;
}

Result<void> check_shards(const std::string& location, const ModelConfig& c, bool in_blocks,
                          int shards) {
  if (shards == 1)
    return {};
  const auto refuse = [&](const std::string& why, std::string hint) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("EngineOptions::tensor_parallel_size is {}, and {} {}", shards,
                            text::shown_path(location), why),
                std::move(hint));
  };
  if (c.has_states())
    return refuse("has recurrent layers, which are not divided", "leave it out");
  if (c.qk_norm == QkNorm::full_width)
    return refuse("normalises the queries of all heads together",
                  "leave it out: its devices are stages then");
  if (divides(c, in_blocks, shards))
    return {};
  const std::string experts =
      !c.mixture ? fmt::format("{} feed-forward units", c.ffn)
      : c.mixture->shared_ffn > 0
          ? fmt::format("experts of {} units, in whole eights, and shared ones of {}",
                        c.mixture->ffn, c.mixture->shared_ffn)
          : fmt::format("experts of {} units, in whole eights", c.mixture->ffn);
  return refuse(fmt::format("has {} heads, {} of keys and values, and {}{}", c.heads, c.kv_heads,
                            experts,
                            in_blocks ? fmt::format(", in blocks of {}", gpu::mx_block) : ""),
                fmt::format("give {}", fmt::join(numbers_that_divide(c, in_blocks), ", ")));
}

} // namespace paceline::models
