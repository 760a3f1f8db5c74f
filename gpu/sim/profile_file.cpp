// Loads latency profiles from JSON files.
#include "gpu/sim/profile.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <fmt/format.h>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <sstream>

namespace paceline::gpu::sim {
namespace {

namespace json = boost::json;

constexpr double longest_ms = 3.6e6;
constexpr std::size_t points_max = 1024;
constexpr std::streamsize file_bytes_max = 1 << 20;

/// A reader of fields that remembers the first error.
class Reader {
public:
  explicit Reader(std::string path) : path_(std::move(path)) {}

  Result<json::object> open() const {
    std::ifstream file(path_, std::ios::binary);
    if (!file)
      return fail(ErrorCode::not_found, "cannot read the latency profile " + path_,
                  "check the path behind sim:");
    std::string text(std::size_t(file_bytes_max), '\0');
    file.read(text.data(), file_bytes_max);
    text.resize(std::size_t(file.gcount()));
    json::error_code error;
    json::value value = json::parse(text, error);
    if (error || !value.is_object())
      return fail(ErrorCode::corrupt, path_ + " is no JSON object", "see docs/simulated.md");
    return std::move(value.get_object());
  }

  double number(const json::object& object, const char* key, double most) {
    const json::value* value = object.if_contains(key);
    if (!value)
      return 0;
    json::error_code error;
    const auto number = value->to_number<double>(error);
    if (error || !std::isfinite(number) || number < 0 || number > most) {
      complain(fmt::format("{} is no number from 0 to {:g}", key, most));
      return 0;
    }
    return number;
  }
  Attention attention(const json::object& object) {
    const json::value* value = object.if_contains("attention");
    if (!value)
      return {};
    if (!value->is_object()) {
      complain("attention is no object");
      return {};
    }
    const json::object& parts = value->get_object();
    only(parts, {"step_ms", "decode_ms_per_million", "prompt_ms_per_million"});
    return {milliseconds(parts, "step_ms"), milliseconds(parts, "decode_ms_per_million"),
            milliseconds(parts, "prompt_ms_per_million")};
  }
  /// Complains about any key that is not in `known`.
  void only(const json::object& object, std::initializer_list<std::string_view> known) {
    for (const auto& [key, value] : object)
      if (std::find(known.begin(), known.end(), std::string_view(key)) == known.end())
        complain(fmt::format("unknown field {}", std::string_view(key)));
  }
  bool flag(const json::object& object, const char* key) {
    const json::value* value = object.if_contains(key);
    if (value && !value->is_bool())
      complain(fmt::format("{} is neither true nor false", key));
    return value && value->is_bool() && value->get_bool();
  }
  base::Duration milliseconds(const json::object& object, const char* key) {
    return base::Duration(std::llround(number(object, key, longest_ms) * 1e6));
  }

  /// Reads [[rows, milliseconds], ...], in order of rows.
  Curve curve(const json::object& object, const char* key) {
    const json::value* value = object.if_contains(key);
    const bool listed = value && value->is_array() && !value->get_array().empty() &&
                        value->get_array().size() <= points_max;
    if (!listed) {
      complain(fmt::format("{} is no list of [rows, milliseconds]", key));
      return {};
    }
    std::vector<Curve::Point> points;
    for (const json::value& point : value->get_array())
      if (!add(points, point)) {
        complain(fmt::format("{}: {} is no [rows, milliseconds] beyond the one before it", key,
                             json::serialize(point)));
        return {};
      }
    return Curve(std::move(points));
  }

  void complain(const std::string& what) {
    if (!error_)
      error_ = Error{ErrorCode::corrupt, path_ + ": " + what, "see docs/simulated.md"};
  }
  const std::optional<Error>& error() const { return error_; }

private:
  static bool add(std::vector<Curve::Point>& points, const json::value& point) {
    if (!point.is_array() || point.get_array().size() != 2)
      return false;
    json::error_code bad_rows;
    json::error_code bad_time;
    const int rows = point.get_array()[0].to_number<int>(bad_rows);
    const auto ms = point.get_array()[1].to_number<double>(bad_time);
    if (bad_rows || bad_time || rows < 0 || !(ms >= 0) || ms > longest_ms ||
        (!points.empty() && rows <= points.back().first))
      return false;
    points.emplace_back(rows, std::llround(ms * 1e6));
    return true;
  }

  std::string path_;
  std::optional<Error> error_;
};

} // namespace

Result<Profile> load_profile(const std::string& path) {
  Reader reader(path);
  const auto object = reader.open();
  if (!object)
    return tl::unexpected(object.error());
  reader.only(*object, {"source", "decode", "prefill", "weights_ms", "attention", "launch_ms",
                        "context_ms_per_1000", "copy_ms_per_row", "hop_ms", "jitter", "queue"});
  Profile profile;
  profile.name = path;
  profile.decode = reader.curve(*object, "decode");
  profile.prefill = reader.curve(*object, "prefill");
  profile.weights = reader.milliseconds(*object, "weights_ms");
  profile.attention = reader.attention(*object);
  profile.launch = reader.milliseconds(*object, "launch_ms");
  profile.per_context_token = reader.milliseconds(*object, "context_ms_per_1000") / 1000;
  profile.copy_per_row = reader.milliseconds(*object, "copy_ms_per_row");
  profile.hop = reader.milliseconds(*object, "hop_ms");
  profile.jitter = reader.number(*object, "jitter", 1);
  profile.queues = reader.flag(*object, "queue");
  if (reader.error())
    return tl::unexpected(*reader.error());
  return profile;
}

} // namespace paceline::gpu::sim
