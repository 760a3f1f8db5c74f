#include "models/checkpoint/folder.hpp"

#include "models/checkpoint/files.hpp"
#include "models/checkpoint/folder_tensors.hpp"
#include "models/checkpoint/lacking.hpp"
#include "models/families.hpp"
#include "text/json.hpp"

#include <fmt/format.h>
#include <functional>
#include <set>
#include <utility>

namespace paceline::models {

using text::shown_path;

Result<ModelConfig> FolderSource::config() const {
  return read_folder_config(location()).and_then([&](const boost::json::object& object) {
    return read_config(shown_path(file("config.json")), object);
  });
}

Result<std::unique_ptr<TensorSource>> FolderSource::tensors(const ModelConfig& config) const {
  return TensorFiles::open(location())
      .map([&](TensorFiles&& files) -> std::unique_ptr<TensorSource> {
        const Family& family = family_of(config.architecture);
        const ModelNames& names = names_in(files, family);
        for (const char* other : names.others)
          files.ignore_all(other);
        return std::make_unique<FolderTensors>(std::move(files), family.tensors, config,
                                               OuterNames::of(names));
      });
}

/// A table of the block's own that is the model's once more counts as not stored.
Result<std::unique_ptr<TensorSource>> FolderSource::mtp_tensors(const ModelConfig& config) const {
  const Family& family = family_of(config.architecture);
  if (!family.mtp)
    return nullptr;
  return TensorFiles::open(location())
      .map([&](TensorFiles&& files) -> std::unique_ptr<TensorSource> {
        const MtpTensors& names = *family.mtp;
        const std::string prefix = fmt::format(fmt::runtime(names.prefix), config.layers);
        const auto named = [&](const char* name) { return prefix + name; };
        const OuterNames whole = OuterNames::of(names_in(files, family));
        const std::string head = config.tied_embedding ? whole.embedding : whole.head;
        std::set<std::string, std::less<>> copies;
        for (const auto& [own, model] :
             {std::pair(named(names.embedding), whole.embedding), {named(names.head), head}})
          if (files.same(own + ".weight", model + ".weight"))
            copies.insert(own + ".weight");
        files.keep_only([&](std::string_view name) {
          return name.starts_with(prefix) && !copies.contains(name);
        });
        if (files.tensors().empty())
          return nullptr;
        return std::make_unique<FolderTensors>(
            std::move(files), family.tensors, config,
            OuterNames{named(names.blocks), *names.blocks != '\0', named(names.embedding),
                       named(names.final_norm), named(names.head), named(names.fusion),
                       named(names.fusion_norm), named(names.token_norm)});
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
