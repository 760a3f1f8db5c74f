// paceline inspect: what a checkpoint holds, whether two make a pair, and what this machine offers.
#include "apps/command.hpp"
#include "apps/devices.hpp"
#include "apps/options.hpp"
#include "apps/output.hpp"
#include "gpu/operations.hpp"
#include "models/config.hpp"
#include "models/files.hpp"
#include "models/model.hpp"
#include "models/safetensors.hpp"
#include "models/tokenizer.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <memory>
#include <optional>

namespace paceline::apps {
namespace {

struct Options {
  std::string model = "demo";
  std::optional<std::string> draft;
  bool devices = false;
  bool json = false;
};

/// All that a folder says, without loading a model from it.
struct Checkpoint {
  std::string name;
  std::string folder;
  models::ModelConfig config;
  models::GenerationDefaults defaults;
  std::shared_ptr<const models::Tokenizer> tokenizer;
  std::uint64_t parameters = 0;
  std::vector<std::string> dtypes;
  std::map<std::string, std::uint64_t> bytes; ///< Of weights, by part.

  std::uint64_t kv_bytes_per_token() const {
    return gpu::KvLayout{config.layers, config.kv_heads, config.head_dim}.token_bytes();
  }
};

std::string part_of(std::string_view tensor) {
  const auto has = [tensor](std::string_view word) {
    return tensor.find(word) != std::string_view::npos;
  };
  if (has("embed_tokens"))
    return "embedding";
  if (has("lm_head"))
    return "output head";
  if (has("norm"))
    return "norms";
  if (has("self_attn"))
    return "attention";
  return has("mlp") ? "feed-forward" : "other";
}

Result<void> add_tensors(Checkpoint& checkpoint, const std::string& path) {
  const auto file = models::MappedFile::open(path);
  if (!file)
    return tl::unexpected(file.error());
  const auto tensors = models::parse_safetensors(path, file->bytes());
  if (!tensors)
    return tl::unexpected(tensors.error());
  for (const models::TensorEntry& tensor : *tensors) {
    checkpoint.bytes[part_of(tensor.name)] += tensor.bytes.size();
    checkpoint.parameters += tensor.bytes.size() / gpu::size_of(tensor.dtype);
    const std::string dtype = gpu::to_string(tensor.dtype);
    if (std::find(checkpoint.dtypes.begin(), checkpoint.dtypes.end(), dtype) ==
        checkpoint.dtypes.end())
      checkpoint.dtypes.push_back(dtype);
  }
  return {};
}

Result<void> add_files(Checkpoint& checkpoint) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(checkpoint.folder))
    if (entry.path().extension() == ".safetensors")
      paths.push_back(entry.path().string());
  if (paths.empty())
    return fail(ErrorCode::not_found, checkpoint.folder + " holds no .safetensors file",
                "give the folder of a checkpoint with weights");
  for (const std::string& path : paths)
    if (auto added = add_tensors(checkpoint, path); !added)
      return added;
  return {};
}

/// Moves a result's value to `out`, or hands its error on.
template <class T>
Result<void> assign(T& out, Result<T> result) {
  if (!result)
    return tl::unexpected(result.error());
  out = std::move(*result);
  return {};
}

Result<Checkpoint> read_checkpoint(const std::string& name, const std::string& role) {
  Checkpoint c;
  c.name = name;
  const auto read =
      assign(c.folder, models::resolve_model_path(name, role))
          .and_then([&] { return assign(c.config, models::load_config(c.folder)); })
          .and_then([&] { return assign(c.defaults, models::load_generation_defaults(c.folder)); })
          .and_then([&] { return assign(c.tokenizer, models::Tokenizer::load(c.folder)); })
          .and_then([&] { return add_files(c); });
  if (!read)
    return tl::unexpected(read.error());
  return c;
}

boost::json::object pieces_json(const models::Tokenizer& tokenizer,
                                const std::vector<TokenId>& ids) {
  boost::json::object pieces;
  for (const TokenId id : ids)
    pieces[std::to_string(id)] = tokenizer.piece(id);
  return pieces;
}

boost::json::object checkpoint_json(const Checkpoint& c) {
  boost::json::object bytes(c.bytes.begin(), c.bytes.end());
  return {{"name", c.name},
          {"folder", c.folder},
          {"architecture", c.config.architecture},
          {"parameters", c.parameters},
          {"dtypes", boost::json::array(c.dtypes.begin(), c.dtypes.end())},
          {"weight_bytes", std::move(bytes)},
          {"kv_bytes_per_token", c.kv_bytes_per_token()},
          {"layers", c.config.layers},
          {"hidden", c.config.hidden},
          {"heads", c.config.heads},
          {"kv_heads", c.config.kv_heads},
          {"head_dim", c.config.head_dim},
          {"ffn", c.config.ffn},
          {"max_model_len", c.config.context},
          {"vocabulary", c.config.vocabulary},
          {"special_tokens", pieces_json(*c.tokenizer, c.tokenizer->special_ids())},
          {"end_of_text", ids_json(c.defaults.end_of_text)}};
}

std::string sampling_text(const sampling::Warping& w) {
  return w.greedy() ? "greedy"
                    : fmt::format("temperature {}, top-k {}, top-p {}, min-p {}", w.temperature,
                                  w.top_k, w.top_p, w.min_p);
}

std::string special_text(const Checkpoint& c) {
  std::string text;
  for (const TokenId id : c.tokenizer->special_ids())
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", id, c.tokenizer->piece(id));
  return text.empty() ? "none" : text;
}

std::string checkpoint_text(const Checkpoint& c, const std::string& role) {
  const models::ModelConfig& m = c.config;
  std::uint64_t total = 0;
  std::string parts;
  for (const auto& [part, bytes] : c.bytes) {
    parts += fmt::format("    {:<14} {:>12}\n", part, human_bytes(bytes));
    total += bytes;
  }
  return fmt::format(
      "{}: {}\n  folder           {}\n  architecture     {}\n"
      "  parameters       {:.2f} M, {}\n  shape            {} layers, width {}, "
      "{} heads ({} for keys and values) of {}, feed-forward {}\n"
      "  context          {} tokens\n  vocabulary       {} ids, {} known to the tokenizer\n"
      "  special tokens   {}\n  end of text      {}\n  sampling         {}\n"
      "  weights          {}\n{}  KV cache         {} a token, {} a full context\n",
      role, c.name, c.folder, m.architecture, double(c.parameters) / 1e6, fmt::join(c.dtypes, ", "),
      m.layers, m.hidden, m.heads, m.kv_heads, m.head_dim, m.ffn, m.context, m.vocabulary,
      c.tokenizer->vocabulary(), special_text(c), fmt::join(c.defaults.end_of_text, ", "),
      sampling_text(c.defaults.warping), human_bytes(total), parts,
      human_bytes(c.kv_bytes_per_token()),
      human_bytes(c.kv_bytes_per_token() * std::uint64_t(m.context)));
}

boost::json::object pair_json(const Result<void>& match) {
  boost::json::object pair{{"compatible", match.has_value()}};
  if (!match)
    pair["reason"] = match.error().text();
  return pair;
}

std::string pair_text(const Result<void>& match) {
  return match ? "pair: one vocabulary; they can work together\n"
               : "pair: cannot work together: " + match.error().text() + "\n";
}

Result<int> show_checkpoints(const Options& options, const std::optional<std::string>& draft_name) {
  const auto target = read_checkpoint(options.model, "target");
  if (!target)
    return tl::unexpected(target.error());
  boost::json::object object{{"target", checkpoint_json(*target)}};
  std::string text = checkpoint_text(*target, "target");
  if (draft_name) {
    const auto draft = read_checkpoint(*draft_name, "draft");
    if (!draft)
      return tl::unexpected(draft.error());
    const auto match = models::check_same_vocabulary(*target->tokenizer, *draft->tokenizer);
    object["draft"] = checkpoint_json(*draft);
    object["pair"] = pair_json(match);
    text += "\n" + checkpoint_text(*draft, "draft") + "\n" + pair_text(match);
  }
  return options.json ? print_json(object) : print_text(text);
}

Result<int> run(const Options& options) {
  if (options.devices)
    return show_devices(options.json);
  if (options.draft || options.model != "demo")
    return show_checkpoints(options, options.draft);
  return show_checkpoints(options, "demo");
}

constexpr const char* footer = R"(Examples:
  paceline inspect
  paceline inspect ~/models/target --draft-model ~/models/draft
  paceline inspect --devices --json)";

} // namespace

Command add_inspect(CLI::App& program) {
  auto* app = program.add_subcommand("inspect", "Show what a checkpoint or this machine holds");
  auto options = std::make_shared<Options>();
  app->add_option("model,-m,--model", options->model,
                  "A folder, a hub id in the local Hugging Face cache, or demo")
      ->capture_default_str()
      ->type_name("DIR");
  app->add_option("-d,--draft-model", options->draft, "Show this one too, and whether they pair")
      ->type_name("DIR");
  app->add_flag("--devices", options->devices, "Show the devices of this machine");
  add_json_option(*app, options->json);
  app->footer(footer);
  return {app, [options](Interrupt&) { return run(*options); }};
}

} // namespace paceline::apps
