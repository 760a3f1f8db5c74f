// The hub's list of a model's files, which a stranger writes and whose names become paths here.
#include "apps/terminal/limits.hpp"
#include "apps/terminal/pull/hub.hpp"
#include "models/checkpoint/digest.hpp"
#include "text/json.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <fmt/format.h>

namespace paceline::apps::pull {
namespace json = boost::json;
namespace {

constexpr std::size_t part_bytes_max = 200; // A file system's own bound is 255; we append to it.
constexpr std::size_t path_bytes_max = 1024;
constexpr std::size_t git_digits = 40;

tl::unexpected<Error> no_list(const std::string& what) {
  return fail(ErrorCode::corrupt, "the hub's list of files " + what, "check HF_ENDPOINT");
}

bool is_git_digest(std::string_view text) {
  return text.size() == git_digits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

std::string_view text_of(const json::object& object, const char* key) {
  const json::value* value = object.if_contains(key);
  return value && value->is_string() ? std::string_view(value->get_string()) : std::string_view();
}

/// Takes the digest of a large file's content, or git's name of a small one.
Result<HubFile> parse_file(const json::object& entry) {
  HubFile file{.path = std::string(text_of(entry, "path"))};
  if (!is_safe_path(file.path))
    return no_list(
        fmt::format("has a file {}, which could leave its folder", text::shown_path(file.path)));
  const json::value* size = entry.if_contains("size");
  const json::value* lfs = entry.if_contains("lfs");
  file.is_sha256 = lfs && lfs->is_object();
  file.digest = file.is_sha256 ? text_of(lfs->get_object(), "oid") : text_of(entry, "oid");
  const std::uint64_t most = limits::hub_file_bytes_max;
  if (!size || !size->is_int64() || size->get_int64() < 0 ||
      std::uint64_t(size->get_int64()) > most ||
      !(file.is_sha256 ? models::Digest::is_hex(file.digest) : is_git_digest(file.digest)))
    return no_list(fmt::format("says no size or no digest of {}", text::shown_path(file.path)));
  file.size = std::uint64_t(size->get_int64());
  return file;
}

} // namespace

bool is_safe_path(std::string_view path) {
  if (path.empty() || path.size() > path_bytes_max)
    return false;
  const auto odd = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; };
  if (std::ranges::any_of(path, odd) || path.find('\\') != path.npos)
    return false;
  for (std::size_t begin = 0, end = 0; end != path.npos; begin = end + 1) {
    end = path.find('/', begin);
    const auto part = path.substr(begin, end == path.npos ? end : end - begin);
    if (part.empty() || part == "." || part == ".." || part.size() > part_bytes_max)
      return false;
  }
  return true;
}

Result<std::vector<HubFile>> parse_hub_list(std::string_view text) {
  json::error_code failed;
  const json::value list = json::parse({text.data(), text.size()}, failed);
  if (failed || !list.is_array())
    return no_list("is none");
  std::vector<HubFile> files;
  for (const json::value& entry : list.get_array()) {
    if (!entry.is_object())
      return no_list("is none");
    if (text_of(entry.get_object(), "type") != "file")
      continue;
    auto file = parse_file(entry.get_object());
    if (!file)
      return tl::unexpected(file.error());
    files.push_back(std::move(*file));
  }
  return files;
}

std::string next_page(const std::string& link) {
  const std::size_t relation = link.find("rel=\"next\"");
  const std::size_t begin = relation == link.npos ? link.npos : link.rfind('<', relation);
  if (begin == link.npos)
    return {};
  return link.substr(begin + 1, link.find('>', begin) - begin - 1);
}

} // namespace paceline::apps::pull
