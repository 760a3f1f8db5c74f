#include "models/checkpoint/folder.hpp"

#include "models/checkpoint/files.hpp"
#include "models/checkpoint/folder_tensors.hpp"
#include "models/checkpoint/lacking.hpp"
#include "models/families.hpp"
#include "text/json.hpp"

namespace paceline::models {

using text::shown_path;

Result<ModelConfig> FolderSource::config() const {
  const std::string path = file("config.json");
  return check_not_foreign(location(), "config.json")
      .and_then([&] { return read_json_object(path); })
      .and_then(
          [&](const boost::json::object& object) { return read_config(shown_path(path), object); });
}

Result<std::unique_ptr<TensorSource>> FolderSource::tensors(const ModelConfig& config) const {
  return TensorFiles::open(location())
      .map([&](TensorFiles&& files) -> std::unique_ptr<TensorSource> {
        const int experts = config.mixture ? config.mixture->experts : 0;
        const BlockTensors& names = block_tensors(config.architecture);
        const NamePrefixes prefixes{names.prefix, names.prefix + std::string("layers.")};
        return std::make_unique<FolderTensors>(std::move(files), names, config.quantization,
                                               prefixes, experts);
      });
}

Result<std::shared_ptr<const text::Tokenizer>> FolderSource::tokenizer() const {
  const std::string path = file("tokenizer.json");
  return check_not_foreign(location(), "tokenizer.json")
      .and_then([&] { return MappedFile::open(path); })
      .and_then([&](const MappedFile& file) {
        return text::Tokenizer::parse(shown_path(path), file.text());
      });
}

} // namespace paceline::models
