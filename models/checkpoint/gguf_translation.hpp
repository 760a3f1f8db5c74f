// The metadata of a GGUF file on its way into the words of config.json.
#pragma once

#include "models/checkpoint/gguf_architecture.hpp"
#include "models/checkpoint/gguf_files.hpp"
#include "paceline/error.hpp"
#include "text/json.hpp"

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::models {

/// A key below the architecture's name, and what config.json calls it.
struct GgufKey {
  const char* config;
  const char* key;
};

/// Factors that are the same numbers in a file and in config.json, and those of a YaRN rotation.
inline constexpr GgufKey gguf_factors[] = {
    {"attn_logit_softcapping", "attn_logit_softcapping"},
    {"final_logit_softcapping", "final_logit_softcapping"},
    {"attention_multiplier", "attention.scale"},
    {"embedding_multiplier", "embedding_scale"},
    {"residual_multiplier", "residual_scale"},
    {"logits_scaling", "logit_scale"},
};
inline constexpr GgufKey gguf_yarn_factors[] = {
    {"beta_fast", "rope.scaling.yarn_beta_fast"},
    {"beta_slow", "rope.scaling.yarn_beta_slow"},
    {"attention_factor", "rope.scaling.yarn_attn_factor"},
    {"mscale_all_dim", "rope.scaling.yarn_log_multiplier"},
};

/// What a file says, and what was made of it. Remembers the first error.
class GgufTranslation {
public:
  GgufTranslation(const GgufFiles& from, const GgufArchitecture& of)
      : files(from), architecture(of) {}

  const GgufFiles& files;
  const GgufArchitecture& architecture;
  boost::json::object config;
  text::Spellings spelled; ///< The file's own names for the members of `config`.

  const std::optional<Error>& error() const { return error_; }
  void wrong(const std::string& what, ErrorCode code = ErrorCode::corrupt,
             std::string_view hint = "");

  bool is(std::string_view name) const { return architecture.name == name; }
  std::string
  key(std::string_view below) const; ///< The whole key, of one below the architecture's.
  const GgufValue* find(std::string_view below) const { return files.find(key(below)); }

  /// Translates a value, if it is there.
  void put(boost::json::object& into, const GgufKey& entry);
  void put(const GgufKey& entry) { put(config, entry); }
  /// Returns what was put already; 0: it is not an integer, which read_config will report.
  std::int64_t stated(const char* name) const;
  /// These return a number or a length; `absent`: the file does not say it.
  double number(std::string_view below, double absent);
  std::int64_t length(std::string_view below, std::int64_t absent);
  /// Returns the number of layers, of which there may be lists; none, and an error, if it is out of
  /// bounds.
  std::optional<std::size_t> layers();
  /// Returns a list with a number for every layer; a single number stands for all. Empty: there is
  /// neither.
  std::vector<std::int64_t> for_layers(std::string_view below, std::size_t layers);
  /// Refuses a length that is another than what it belongs to.
  void check_same(std::string_view below, double length);

private:
  std::optional<Error> error_;
};

/// Translates recurrent layers with a delta rule (Qwen), of which a file may have a list in place
/// of an interval.
void translate_recurrence(GgufTranslation& file);
/// Translates layers of which those with keys have attention, and the sizes of the others (Granite
/// 4, LFM 2, Nemotron-H).
void translate_hybrid(GgufTranslation& file);

} // namespace paceline::models
