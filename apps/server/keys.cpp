#include "apps/server/keys.hpp"

#include "base/parse_number.hpp"
#include "sampling/fields.hpp"
#include "text/blanks.hpp"

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <optional>

namespace paceline::apps::serve {
namespace {

std::string digest(std::string_view text) {
  std::string hash(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         reinterpret_cast<unsigned char*>(hash.data()));
  return hash;
}

constexpr base::NumberRange weight_range = sampling::request_number("client_weight").range;

/// Reads "weight=3". An empty text is 1; none: it is something else.
std::optional<int> read_weight(std::string_view text) {
  constexpr std::string_view name = "weight=";
  if (text.empty())
    return 1;
  if (!text.starts_with(name))
    return std::nullopt;
  text.remove_prefix(name.size());
  const auto weight = base::parse_number<int>(text);
  return weight && weight_range.allows(*weight) ? weight : std::nullopt;
}

Result<Keys> read_file(const std::string& file) {
  std::ifstream lines(file);
  if (!lines)
    return fail(ErrorCode::not_found, "cannot read the API keys in " + file,
                "check that the file exists and may be read by this user");
  Keys keys;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const auto text = text::trimmed(line);
    if (text.empty() || text.front() == '#')
      continue;
    const auto space = std::min(text.find_first_of(" \t"), text.size());
    const auto weight = read_weight(text::trimmed(text.substr(space)));
    if (!weight)
      return fail(
          ErrorCode::invalid_argument, fmt::format("line {} of {} is not an API key", number, file),
          fmt::format("write the key alone, or KEY weight=N with N {}", weight_range.wanted()));
    keys.add(text.substr(0, space), *weight);
  }
  if (!keys.required()) // An empty file must not open the server to everybody.
    return fail(ErrorCode::invalid_argument, "there is no API key in " + file,
                "write one key a line, or leave the option out");
  return keys;
}

constexpr std::string_view scheme = "Bearer ";

/// Returns the key behind the scheme, with which the text must begin.
std::string_view key_of(std::string_view authorization) {
  return text::trimmed(authorization.substr(std::min(scheme.size(), authorization.size())));
}

} // namespace

Result<Keys> Keys::load(const std::string& file, const char* variable) {
  if (!file.empty())
    return read_file(file);
  Keys keys;
  const char* environment = std::getenv(variable);
  std::string_view rest = environment ? environment : "";
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    if (const auto key = text::trimmed(rest.substr(0, comma)); !key.empty())
      keys.add(key);
    rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
  }
  return keys;
}

void Keys::add(std::string_view key, int weight) {
  keys_.push_back({digest(key), weight});
}

bool Keys::accept(std::string_view authorization) const {
  if (!required())
    return true;
  if (!boost::beast::iequals(authorization.substr(0, scheme.size()), scheme))
    return false;
  const std::string given = digest(key_of(authorization));
  bool found = false;
  for (const Holder& key : keys_) // Compares all of them, so that the time tells nothing.
    found |= CRYPTO_memcmp(key.name.data(), given.data(), given.size()) == 0;
  return found;
}

Holder Keys::holder(std::string_view authorization) const {
  if (!required())
    return {};
  Holder holder{digest(key_of(authorization))};
  const auto known = std::ranges::find(keys_, holder.name, &Holder::name);
  return known == keys_.end() ? holder : *known;
}

} // namespace paceline::apps::serve
