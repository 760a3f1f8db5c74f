#include "models/checkpoint/lacking.hpp"

#include "models/checkpoint/files.hpp"
#include "models/checkpoint/gguf_files.hpp"
#include "text/json.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <string_view>
#include <vector>

namespace paceline::models {
namespace fs = std::filesystem;
namespace {

/// A file of another kind, known by its name's ending, that lies where a file that is read is
/// missing.
struct Foreign {
  std::string_view lacking;
  std::string_view ending;
  const char* what;
  const char* hint;
};

constexpr const char* gguf_hint =
    "give the .gguf file itself as the model, or load the checkpoint that it was made from";
constexpr const char* merge_hint =
    "merge it into its base model (peft: merge_and_unload), and load what that saves";
constexpr const char* convert_hint =
    "transformers' AutoModelForCausalLM.from_pretrained(folder).save_pretrained(folder) writes it";
constexpr const char* tokenizer_hint =
    "transformers' AutoTokenizer.from_pretrained(folder).save_pretrained(folder) writes it";
constexpr const char* format_hint = "load the model's version for transformers";

constexpr Foreign foreigners[] = {
    {"config.json", "adapter_config.json", "which an adapter has, not a whole model", merge_hint},
    {"config.json", "params.json", "which has its makers' own format", format_hint},
    {"config.json", ".gguf", "which is GGUF and not read together with other files", gguf_hint},
    {"tokenizer.json", "tokenizer.model", "which is SentencePiece's and not read", tokenizer_hint},
    {"tokenizer.json", "tekken.json", "which is Mistral's own and not read", tokenizer_hint},
    {"tokenizer.json", "vocab.json", "which is the older format and not read", tokenizer_hint},
    {"tokenizer.json", ".gguf", "which is GGUF and not read together with other files", gguf_hint},
    {"model.safetensors", "adapter_model.safetensors", "which is an adapter, not a whole model",
     merge_hint},
    {"model.safetensors", "consolidated.safetensors", "which has its makers' own names of tensors",
     format_hint},
    {"model.safetensors", ".bin", "whose weights are pickled and not read", convert_hint},
    {"model.safetensors", ".bin.index.json", "whose weights are pickled and not read",
     convert_hint},
    {"model.safetensors", ".pth", "whose weights are pickled and not read", format_hint},
    {"model.safetensors", ".gguf", "which is GGUF and not read together with other files",
     gguf_hint},
};

bool has_unfinished(const fs::path& folder) {
  return std::ranges::any_of(sorted_entries(folder), [](const fs::path& path) {
    return path.extension() == ".incomplete";
  });
}

/// A download into a folder: the command for it, and whether it left something unfinished.
struct Download {
  /// The command that finishes the download; empty: the folder is no download.
  std::string command;
  bool unfinished = false;
};

/// Recognises a download. A snapshot of the cache lies in models--org--name/snapshots, with its
/// files' contents in blobs; other folders keep unfinished parts in .cache.
Download download_of(const fs::path& folder) {
  constexpr std::string_view cached = "models--";
  const fs::path repository = folder.parent_path().parent_path();
  std::string id = repository.filename().string();
  if (folder.parent_path().filename() == "snapshots" && id.starts_with(cached)) {
    id.erase(0, cached.size());
    if (const auto separator = id.find("--"); separator != id.npos)
      id.replace(separator, 2, "/");
    return {"hf download " + id, has_unfinished(repository / "blobs")};
  }
  if (has_unfinished(folder / ".cache/huggingface/download"))
    return {"hf download ORG/NAME --local-dir " + text::shown_path(folder.string()), true};
  return {};
}

} // namespace

Result<void> check_downloaded(const std::string& folder, const std::string& file) {
  std::error_code ignored;
  if (fs::exists(fs::path(folder) / file, ignored))
    return {};
  const fs::path path = fs::path(folder).lexically_normal();
  const Download download = download_of(path.has_filename() ? path : path.parent_path());
  if (download.command.empty())
    return {};
  return fail(
      ErrorCode::not_found,
      fmt::format("{} has no {}: {}", text::shown_path(folder), file,
                  download.unfinished ? "its download is not finished" : "it was not downloaded"),
      "bring it: " + download.command);
}

Result<void> check_not_foreign(const std::string& folder, const std::string& file) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored) && is_gguf(folder))
    return fail(ErrorCode::unsupported,
                fmt::format("{} is a GGUF file, where a folder with {} is wanted",
                            text::shown_path(folder), file),
                "load the checkpoint that it was made from");
  std::vector<std::string> names;
  for (const fs::path& path : sorted_entries(folder))
    names.push_back(path.filename().string());
  if (std::find(names.begin(), names.end(), file) != names.end())
    return {};
  for (const Foreign& foreign : foreigners) {
    const auto found = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
      return foreign.lacking == file && name.ends_with(foreign.ending);
    });
    if (found != names.end())
      return fail(ErrorCode::unsupported,
                  fmt::format("{} has no {}, but {}, {}", text::shown_path(folder), file,
                              text::shown(*found), foreign.what),
                  foreign.hint);
  }
  return check_downloaded(folder, file);
}

Result<boost::json::object> read_folder_config(const std::string& folder) {
  return check_not_foreign(folder, "config.json").and_then([&] {
    return read_json_object(folder + "/config.json");
  });
}

} // namespace paceline::models
