#include "models/head_ids.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <span>
#include <utility>

namespace paceline::models {
namespace {

/// Returns whether the mask is true for exactly these ids.
bool is_mask_of(std::span<const std::byte> mask, const std::vector<TokenId>& ids) {
  std::vector<std::byte> expected(mask.size(), std::byte(0));
  for (const TokenId id : ids)
    expected[std::size_t(id)] = std::byte(1);
  return std::ranges::equal(mask, expected);
}

/// Reads the ids from their offsets: the head's id i is the target's i + d2t[i].
Result<std::vector<TokenId>> read_offsets(TensorFiles& files, int said, int known) {
  std::vector<TokenId> ids(std::size_t(said), 0);
  std::vector<std::int64_t> offsets(std::size_t(said), 0);
  if (files.has("d2t") || said != known) {
    const auto entry = files.take("d2t", {said}, 0);
    if (!entry)
      return tl::unexpected(entry.error());
    if ((*entry)->type != StoredType::i64)
      return files.wrong("d2t", fmt::format("is of {}, not I64", to_string((*entry)->type)));
    std::memcpy(offsets.data(), (*entry)->bytes.data(), (*entry)->bytes.size());
  }
  std::vector<char> taken(std::size_t(known), 0);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::int64_t id = std::int64_t(i) + offsets[i];
    if (offsets[i] < -known || offsets[i] > known || id < 0 || id >= known ||
        std::exchange(taken[std::size_t(id)], 1))
      return files.wrong("d2t", fmt::format("leads from id {} to one that is not there, or "
                                            "is another's",
                                            i));
    ids[i] = TokenId(id);
  }
  return ids;
}

Result<void> check_mask(TensorFiles& files, const std::vector<TokenId>& ids, int known) {
  if (!files.has("t2d"))
    return {};
  const auto entry = files.take("t2d", {known}, 0);
  if (!entry)
    return tl::unexpected(entry.error());
  if ((*entry)->type != StoredType::boolean || !is_mask_of((*entry)->bytes, ids))
    return files.wrong("t2d", "is not the mask of the ids that d2t leads to");
  return {};
}

} // namespace

Result<std::vector<TokenId>> read_head_ids(TensorFiles& files, int said, int known) {
  return read_offsets(files, said, known).and_then([&](std::vector<TokenId>&& ids) {
    return check_mask(files, ids, known).map([&] { return std::move(ids); });
  });
}

} // namespace paceline::models
