#include "models/checkpoint/model_name.hpp"

#include "models/checkpoint/gguf_files.hpp"
#include "text/json.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

namespace paceline::models {
namespace {

constexpr std::size_t part_bytes_max = 128; // The hub's own bound is 96.
constexpr std::string_view gguf_ending = ".gguf";

bool is_letter_or_digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

char upper_case(char c) {
  return c >= 'a' && c <= 'z' ? char(c - 'a' + 'A') : c;
}

std::string upper_case(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) { return upper_case(c); });
  return out;
}

bool is_name_part(std::string_view text) {
  return !text.empty() && text.size() <= part_bytes_max && is_letter_or_digit(text.front()) &&
         std::ranges::all_of(text, [](char c) {
           return is_letter_or_digit(c) || c == '-' || c == '_' || c == '.';
         });
}

/// Whether a text in upper case is the name of a format that GGUF files are made in.
bool is_format(std::string_view text) {
  constexpr std::array plain{"F16", "F32", "BF16", "FP16", "MXFP4", "MXFP4_MOE"};
  if (std::ranges::find(plain, text) != plain.end())
    return true;
  for (const std::string_view family : {"IQ", "TQ", "Q"})
    if (text.starts_with(family) && text.size() > family.size() && text[family.size()] >= '1' &&
        text[family.size()] <= '8')
      return std::ranges::all_of(text, [](char c) { return is_letter_or_digit(c) || c == '_'; });
  return false;
}

/// Whether the end of a variant behind a separator is what was wanted, or all of it.
bool ends_with_name(std::string_view variant, std::string_view wanted) {
  if (wanted.size() > variant.size())
    return false;
  const std::size_t at = variant.size() - wanted.size();
  return same_but_case(variant.substr(at), wanted) &&
         (at == 0 || std::string_view("-._").find(variant[at - 1]) != std::string_view::npos);
}

template <class F>
std::vector<std::size_t> indices_where(const std::vector<std::string>& variants, const F& holds) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < variants.size(); ++i)
    if (holds(variants[i]))
      found.push_back(i);
  return found;
}

/// Returns the shortest name of each variant that still tells it from the others.
std::set<std::string> shown_variants(const std::vector<std::string>& variants) {
  std::set<std::string> names;
  for (const std::string& variant : variants) {
    const std::string brief = gguf_variant(variant);
    const auto alike = indices_where(
        variants, [&](const std::string& other) { return ends_with_name(other, brief); });
    names.insert(text::shown(alike.size() == 1 ? brief : variant));
  }
  return names;
}

} // namespace

bool same_but_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return upper_case(x) == upper_case(y); });
}

std::optional<ModelName> parse_model_name(std::string_view text) {
  constexpr std::string_view hub = "hf:";
  const bool behind_hub = text.starts_with(hub);
  if (behind_hub)
    text.remove_prefix(hub.size());
  const std::size_t colon = text.find(':');
  std::string_view variant = colon == text.npos ? std::string_view() : text.substr(colon + 1);
  if (variant.ends_with(gguf_ending))
    variant.remove_suffix(gguf_ending.size());
  const std::string_view base = text.substr(0, colon);
  const std::size_t slash = base.find('/');
  const bool parts = slash == base.npos ? !behind_hub && is_name_part(base)
                                        : is_name_part(base.substr(0, slash)) &&
                                              is_name_part(base.substr(slash + 1));
  if (!parts || (colon != text.npos && !is_name_part(variant)))
    return std::nullopt;
  return ModelName{std::string(base), std::string(variant)};
}

std::string gguf_stem(std::string_view path) {
  if (const std::size_t slash = path.rfind('/'); slash != path.npos)
    path.remove_prefix(slash + 1);
  if (const auto part = gguf_part(path))
    return part->stem;
  if (path.ends_with(gguf_ending))
    path.remove_suffix(gguf_ending.size());
  return std::string(path);
}

std::string gguf_variant(std::string_view stem) {
  for (std::size_t at = 0; at < stem.size(); ++at)
    if (at == 0 || std::string_view("-._").find(stem[at - 1]) != std::string_view::npos)
      if (const std::string end = upper_case(stem.substr(at)); is_format(end))
        return end;
  return std::string(stem);
}

Result<std::size_t> choose_variant(const std::string& base,
                                   const std::vector<std::string>& variants,
                                   const std::string& wanted) {
  constexpr std::array usual{"latest", "Q4_K_M"};
  std::vector<std::size_t> fit;
  const auto equal = [&](const std::string& name) { return same_but_case(name, wanted); };
  const auto ends = [&](const std::string& name) { return ends_with_name(name, wanted); };
  if (wanted.empty())
    fit = indices_where(variants, [](const std::string&) { return true; });
  else if (fit = indices_where(variants, equal); fit.empty())
    fit = indices_where(variants, ends);
  if (wanted.empty() && fit.size() > 1)
    for (const std::string_view one : usual)
      if (const auto found = indices_where(
              variants, [&](const std::string& name) { return ends_with_name(name, one); });
          found.size() == 1)
        return found.front();
  if (fit.size() == 1)
    return fit.front();
  const auto names = shown_variants(variants);
  if (fit.empty())
    return fail(ErrorCode::not_found, fmt::format("{} has no {}", base, text::shown(wanted)),
                fmt::format("it has {}", fmt::join(names, ", ")));
  return fail(ErrorCode::invalid_argument,
              fmt::format("{} has several models: {}", base, fmt::join(names, ", ")),
              fmt::format("name one, such as {}:{}", base, *names.begin()));
}

} // namespace paceline::models
