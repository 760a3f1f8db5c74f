// Tiny checkpoints of any family with a tokenizer, for engines.
#pragma once

#include "tests/models/reference_checkpoint.hpp"

#include <boost/json.hpp>
#include <fmt/format.h>

#include <string>
#include <vector>

namespace paceline::testing {

/// The reference checkpoints have so many ids.
inline constexpr int tiny_vocabulary = 160;

/// One token per printable character, and names for the rest, the first of which are merges where
/// `merges` names any; counted from `first` on.
inline std::string tokenizer_json(int first = 0, const std::vector<std::string>& merges = {}) {
  boost::json::object vocab;
  for (int i = 0; i < tiny_vocabulary; ++i)
    vocab[i < 94                        ? std::string(1, char('!' + i))
          : i < 94 + int(merges.size()) ? merges[std::size_t(i - 94)]
                                        : fmt::format("<{}>", i)] = (first + i) % tiny_vocabulary;
  boost::json::array pairs;
  for (const std::string& merge : merges)
    pairs.push_back(boost::json::array{merge.substr(0, 1), merge.substr(1)});
  const boost::json::object level{{"type", "ByteLevel"},
                                  {"add_prefix_space", false},
                                  {"trim_offsets", true},
                                  {"use_regex", true}};
  return boost::json::serialize(
      boost::json::object{{"version", "1.0"},
                          {"added_tokens", boost::json::array()},
                          {"normalizer", nullptr},
                          {"pre_tokenizer", level},
                          {"post_processor", nullptr},
                          {"decoder", level},
                          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", pairs}}}});
}

/// A reference checkpoint with a tokenizer, some fields of its config.json changed.
class TinyModel {
public:
  explicit TinyModel(const char* name, const boost::json::object& change = {},
                     const std::string& tokenizer = tokenizer_json())
      : TinyModel(models::test::reference_case(name), change, tokenizer) {}
  explicit TinyModel(boost::json::object entry, const boost::json::object& change = {},
                     const std::string& tokenizer = tokenizer_json()) {
    for (const auto& [key, value] : change)
      entry["config"].as_object()[key] = value;
    for (boost::json::value& tensor :
         entry["tensors"].as_array()) // a padded vocabulary has more rows
      if (const auto& tensor_name = tensor.as_array()[0].as_string();
          tensor_name.find("embed_tokens") != boost::json::string::npos ||
          tensor_name.find("lm_head") != boost::json::string::npos)
        tensor.as_array()[1].as_array()[0] = entry["config"].at("vocab_size");
    models::test::write_checkpoint(folder_, entry, gpu::DType::bf16);
    folder_.write("tokenizer.json", tokenizer);
  }
  std::string path() const { return folder_.path(); }
  const models::test::TemporaryFolder& folder() const { return folder_; }

private:
  models::test::TemporaryFolder folder_;
};

} // namespace paceline::testing
